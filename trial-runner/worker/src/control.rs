//! The few words that every rank adds to each exchange, so that all ranks switch, halt and finish at the same step. Pure; called
//! by `exchange` and the session.

use elastune_core::model::group::Finish;

/// f32 slots that the words take. Each holds 16 bits, which f32 keeps exactly.
pub const WORDS: usize = 8;

/// What one rank says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Words {
    /// Steps committed before this exchange: a rank that differs has lost its way.
    pub step: u64,
    /// The armed order that it is ready to switch to; 0: none.
    pub ready: u32,
    pub finish: Option<Finish>,
    /// Step at which to halt, by its agent; only rank 0's counts.
    pub run_until: u64,
    /// Of a donor that leaves: the joiners have the state.
    pub donated: bool,
}

/// What follows for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Agreed {
    /// The order to switch to now.
    pub switch: Option<u32>,
    pub finish: Option<Finish>,
    pub run_until: u64,
    pub donated: bool,
}

fn halves(value: u64) -> [f32; 2] {
    let value = value.min(u64::from(u32::MAX));
    [(value >> 16) as f32, (value & 0xffff) as f32]
}

fn whole(halves: &[f32]) -> u64 {
    halves.iter().fold(0, |value, half| value << 16 | u64::from(*half as u16))
}

impl Words {
    pub fn encode(&self) -> [f32; WORDS] {
        let finish = match self.finish {
            None => 0.0,
            Some(Finish::Save) => 1.0,
            Some(Finish::Stop) => 2.0,
        };
        let ([a, b], [c, d], [e, f]) = (halves(self.step), halves(u64::from(self.ready)), halves(self.run_until));
        [a, b, c, d, e, f, finish, f32::from(u8::from(self.donated))]
    }

    /// Of `WORDS` slots.
    pub fn decode(slots: &[f32]) -> Words {
        let at = |slot: usize| slots.get(slot).copied().unwrap_or_default();
        let finish = match at(6) as u8 {
            0 => None,
            1 => Some(Finish::Save),
            _ => Some(Finish::Stop),
        };
        let pair = |slot: usize| whole(&[at(slot), at(slot + 1)]);
        Words { step: pair(0), ready: pair(2) as u32, finish, run_until: pair(4), donated: at(7) > 0.0 }
    }
}

/// All ranks' words, in rank order. None: the ranks are not at the same step.
pub fn agree(ranks: &[Words]) -> Option<Agreed> {
    let first = ranks.first()?;
    let ready = ranks.iter().all(|words| words.ready == first.ready).then_some(first.ready);
    // Stop outdoes Save: then nothing is wanted of it any more.
    let finish = if ranks.iter().any(|words| words.finish == Some(Finish::Stop)) {
        Some(Finish::Stop)
    } else {
        ranks.iter().find_map(|words| words.finish)
    };
    ranks.iter().all(|words| words.step == first.step).then_some(Agreed {
        switch: ready.filter(|order| *order > 0),
        finish,
        run_until: first.run_until,
        donated: ranks.iter().any(|words| words.donated),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_f32() {
        for (step, ready, run_until) in [(0, 0, 0), (65_535, 65_536, 16_777_217), (u64::from(u32::MAX), u32::MAX, 4_000_000_000)] {
            for finish in [None, Some(Finish::Save), Some(Finish::Stop)] {
                let words = Words { step, ready, finish, run_until, donated: ready > 0 };
                assert_eq!(Words::decode(&words.encode()), words);
            }
        }
    }

    #[test]
    fn all_must_be_ready_for_one_order() {
        let at = |ready, finish| Words { step: 9, ready, finish, run_until: 40, donated: false };
        let switch = |ranks: &[Words]| agree(ranks).expect("they are at one step").switch;
        assert_eq!(switch(&[at(5, None), at(5, None)]), Some(5));
        assert_eq!(switch(&[at(5, None), at(6, None)]), None);
        assert_eq!(switch(&[at(5, None), at(0, None)]), None);
        assert_eq!(switch(&[at(0, None), at(0, None)]), None);
        let finish = |ranks: &[Words]| agree(ranks).expect("they are at one step").finish;
        assert_eq!(finish(&[at(0, None), at(0, Some(Finish::Save))]), Some(Finish::Save));
        assert_eq!(finish(&[at(0, Some(Finish::Save)), at(0, Some(Finish::Stop))]), Some(Finish::Stop));
    }

    #[test]
    fn only_the_first_rank_says_how_far_and_steps_must_agree() {
        let at = |step, run_until| Words { step, run_until, ..Words::default() };
        assert_eq!(agree(&[at(3, 10), at(3, 90)]).map(|agreed| agreed.run_until), Some(10));
        assert_eq!(agree(&[at(3, 10), at(4, 10)]), None);
        assert_eq!(agree(&[]), None);
    }
}
