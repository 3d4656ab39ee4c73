//! What a screen can show of many trials: the best of them and an even sample of the rest. Used by curves and parallel coordinates.

use elastune_core::model::study::Goal;

/// Indices of at most `most` of the trials with these `values`, in order: the better half of the room for the best, the rest even.
pub fn choose(values: &[Option<f64>], goal: Goal, most: usize) -> Vec<usize> {
    if values.len() <= most {
        return (0..values.len()).collect();
    }
    let mut ranked: Vec<(f64, usize)> =
        values.iter().enumerate().filter_map(|(index, value)| Some((goal.loss((*value)?), index))).collect();
    ranked.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut chosen: Vec<usize> = ranked.iter().map(|(_, index)| *index).take(most.div_ceil(2)).collect();
    let rest: Vec<usize> = (0..values.len()).filter(|index| !chosen.contains(index)).collect();
    chosen.extend(evenly(rest.len(), most - chosen.len()).map(|at| rest[at]));
    chosen.sort_unstable();
    chosen
}

/// `most` indices below `length`, evenly spread, the first and the last among them.
pub fn evenly(length: usize, most: usize) -> impl Iterator<Item = usize> {
    let count = length.min(most);
    (0..count).map(move |i| match count {
        1 => length - 1,
        _ => i * (length - 1) / (count - 1),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_best_is_always_shown_and_nothing_twice(values: Vec<Option<f64>>, most in 1usize..40) {
            let values: Vec<_> = values.into_iter().map(|value| value.filter(|value| value.is_finite())).collect();
            let chosen = choose(&values, Goal::Minimize, most);
            prop_assert_eq!(chosen.len(), values.len().min(most));
            prop_assert!(chosen.windows(2).all(|pair| pair[0] < pair[1]));
            if let Some(best) = values.iter().flatten().copied().min_by(f64::total_cmp) {
                prop_assert!(chosen.iter().any(|index| values[*index] == Some(best)));
            }
        }

        #[test]
        fn even_samples_keep_both_ends(length in 2usize..2000, most in 2usize..300) {
            let at: Vec<_> = evenly(length, most).collect();
            prop_assert_eq!(at.len(), length.min(most));
            prop_assert_eq!((at[0], at[at.len() - 1]), (0, length - 1));
            prop_assert!(at.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}
