//! Precedence climbing over a hand-made token list. Called through `Constraint::parse`.

use super::{Expr, MAX_BYTES, MAX_DEPTH, Op};

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Number(f64),
    Text(String),
    Name(String),
    /// An operator or a parenthesis; `and`, `or`, `not`, `true` and `false` too.
    Sign(&'static str),
}

/// Longest first, so that `<=` is never read as `<`.
const SIGNS: &[&str] = &["<=", ">=", "==", "!=", "<", ">", "+", "-", "*", "/", "(", ")"];
const WORDS: &[&str] = &["and", "or", "not", "true", "false"];

/// Binds tighter than every comparison, looser than arithmetic: what `not` takes is a whole comparison.
const COMPARISON: u8 = 3;

/// Errors: a sentence with the place, in characters from 1.
pub(super) fn parse(text: &str) -> Result<Expr, String> {
    if text.len() > MAX_BYTES {
        return Err(format!("must be at most {MAX_BYTES} bytes long"));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, next: 0, end: text.chars().count() + 1 };
    let expr = parser.expr(0, 0)?;
    match parser.peek() {
        None => Ok(expr),
        Some(_) => Err(parser.unexpected("an operator, such as 'and'")),
    }
}

fn tokens(text: &str) -> Result<Vec<(usize, Token)>, String> {
    let chars: Vec<char> = text.chars().collect();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < chars.len() {
        let start = at;
        let run = |from: usize, keep: fn(char) -> bool| from + chars[from..].iter().take_while(|c| keep(**c)).count();
        let token = match chars[at] {
            c if c.is_whitespace() => {
                at += 1;
                continue;
            }
            quote @ ('"' | '\'') => {
                let length = chars[at + 1..].iter().position(|c| *c == quote);
                let length = length.ok_or(format!("the text that begins at character {} has no closing quote", start + 1))?;
                at += length + 2;
                Token::Text(chars[start + 1..at - 1].iter().collect())
            }
            c if c.is_ascii_digit() || c == '.' => {
                at = run(at, |c| c.is_ascii_digit() || c == '.');
                if matches!(chars.get(at), Some('e' | 'E')) {
                    let sign = usize::from(matches!(chars.get(at + 1), Some('+' | '-')));
                    at = run(at + 1 + sign, |c| c.is_ascii_digit());
                }
                let word: String = chars[start..at].iter().collect();
                let number = word.parse::<f64>().ok().filter(|number| number.is_finite());
                Token::Number(number.ok_or(format!("'{word}' at character {} is not a number", start + 1))?)
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                at = run(at, |c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
                let word: String = chars[start..at].iter().collect();
                match WORDS.iter().find(|reserved| **reserved == word) {
                    Some(reserved) => Token::Sign(reserved),
                    None => Token::Name(word),
                }
            }
            c => {
                let sign = SIGNS.iter().find(|sign| sign.chars().eq(chars[at..].iter().copied().take(sign.len())));
                let hint = if c == '=' { "; equality is written '=='" } else { "" };
                let sign = sign.ok_or(format!("unexpected '{c}' at character {}{hint}", start + 1))?;
                at += sign.len();
                Token::Sign(sign)
            }
        };
        tokens.push((start + 1, token));
    }
    Ok(tokens)
}

struct Parser<'a> {
    tokens: &'a [(usize, Token)],
    next: usize,
    /// Place of the text's end.
    end: usize,
}

impl Parser<'_> {
    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next).map(|(_, token)| token)
    }

    fn unexpected(&self, wanted: &str) -> String {
        match self.tokens.get(self.next) {
            Some((at, _)) => format!("expected {wanted} at character {at}"),
            None => format!("expected {wanted} at character {}, where it ends", self.end),
        }
    }

    /// An expression of operators that bind at least as tightly as `floor`.
    fn expr(&mut self, floor: u8, depth: usize) -> Result<Expr, String> {
        let mut left = self.operand(depth)?;
        while let Some((op, power)) = self.peek().and_then(operator) {
            if power < floor {
                break;
            }
            self.next += 1;
            let right = self.expr(power + 1, depth)?;
            left = Expr::Binary(op, Box::new(left), Box::new(right));
            if power == COMPARISON && self.peek().and_then(operator).is_some_and(|(_, next)| next == COMPARISON) {
                return Err(format!("{}: comparisons don't chain", self.unexpected("'and' or 'or'")));
            }
        }
        Ok(left)
    }

    fn operand(&mut self, depth: usize) -> Result<Expr, String> {
        if depth > MAX_DEPTH {
            return Err(format!("nests deeper than {MAX_DEPTH} levels"));
        }
        let token = self.peek().cloned().ok_or_else(|| self.unexpected("a value"))?;
        self.next += 1;
        match token {
            Token::Number(number) => Ok(Expr::Number(number)),
            Token::Text(text) => Ok(Expr::Text(text)),
            Token::Name(name) => Ok(Expr::Name(name)),
            Token::Sign("true") => Ok(Expr::Bool(true)),
            Token::Sign("false") => Ok(Expr::Bool(false)),
            Token::Sign("not") => Ok(Expr::Not(Box::new(self.expr(COMPARISON, depth + 1)?))),
            Token::Sign("-") => Ok(Expr::Negate(Box::new(self.operand(depth + 1)?))),
            Token::Sign("(") => {
                let inner = self.expr(0, depth + 1)?;
                if self.peek() != Some(&Token::Sign(")")) {
                    return Err(self.unexpected("')'"));
                }
                self.next += 1;
                Ok(inner)
            }
            Token::Sign(_) => {
                self.next -= 1;
                Err(self.unexpected("a parameter, a number or a quoted text"))
            }
        }
    }
}

fn operator(token: &Token) -> Option<(Op, u8)> {
    let Token::Sign(sign) = token else { return None };
    Some(match *sign {
        "or" => (Op::Or, 1),
        "and" => (Op::And, 2),
        "==" => (Op::Equal, COMPARISON),
        "!=" => (Op::NotEqual, COMPARISON),
        "<" => (Op::Less, COMPARISON),
        "<=" => (Op::AtMost, COMPARISON),
        ">" => (Op::Greater, COMPARISON),
        ">=" => (Op::AtLeast, COMPARISON),
        "+" => (Op::Add, 4),
        "-" => (Op::Subtract, 4),
        "*" => (Op::Multiply, 5),
        "/" => (Op::Divide, 5),
        _ => return None,
    })
}
