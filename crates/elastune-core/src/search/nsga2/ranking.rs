//! Fitness of a set of losses: Pareto rank, then crowding distance (Deb et al., IEEE TEC 6 (2002), section III). Called by `nsga2`.

/// Indices of `losses`, the fittest first; an empty entry is dominated by every other. Of equals the first stays first.
pub fn fittest(losses: &[&[f64]]) -> Vec<usize> {
    let mut order = Vec::with_capacity(losses.len());
    for mut front in fronts(losses) {
        let crowding = crowding(losses, &front);
        let mut places: Vec<usize> = (0..front.len()).collect();
        places.sort_by(|left, right| crowding[*right].total_cmp(&crowding[*left]).then(front[*left].cmp(&front[*right])));
        front = places.into_iter().map(|place| front[place]).collect();
        order.extend(front);
    }
    order
}

/// As good in all and better in one.
fn dominates(left: &[f64], right: &[f64]) -> bool {
    match (left.is_empty(), right.is_empty()) {
        (false, true) => true,
        (true, _) => false,
        (false, false) => {
            left.iter().zip(right).all(|(left, right)| left <= right) && left.iter().zip(right).any(|(left, right)| left < right)
        }
    }
}

/// Indices by rank: those that nobody dominates, those that only the first do, and so on.
fn fronts(losses: &[&[f64]]) -> Vec<Vec<usize>> {
    let mut left: Vec<usize> = (0..losses.len()).collect();
    let mut fronts = Vec::new();
    while !left.is_empty() {
        let dominated = |index: &usize| left.iter().any(|other| dominates(losses[*other], losses[*index]));
        let (behind, front): (Vec<usize>, Vec<usize>) = left.iter().partition(|index| dominated(index));
        fronts.push(front);
        left = behind;
    }
    fronts
}

/// The room that each of a front has to itself; infinite at the ends.
fn crowding(losses: &[&[f64]], front: &[usize]) -> Vec<f64> {
    let mut room = vec![0.0; front.len()];
    let of = |index: usize, objective: usize| losses[index][objective];
    let objectives = front.first().map_or(0, |index| losses[*index].len());
    for objective in 0..objectives {
        let loss = |place: usize| of(front[place], objective);
        let mut places: Vec<usize> = (0..front.len()).collect();
        places.sort_by(|left, right| loss(*left).total_cmp(&loss(*right)).then(left.cmp(right)));
        let range = loss(places[places.len() - 1]) - loss(places[0]);
        room[places[0]] = f64::INFINITY;
        room[places[places.len() - 1]] = f64::INFINITY;
        for window in places.windows(3) {
            let gap = loss(window[2]) - loss(window[0]);
            room[window[1]] += if range > 0.0 && range.is_finite() { gap / range } else { 0.0 };
        }
    }
    room
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_goes_before_room_and_failures_come_last() {
        let losses: [&[f64]; 7] = [&[2.0, 2.0], &[], &[0.0, 3.0], &[3.0, 0.0], &[1.0, 1.0], &[1.1, 0.9], &[1.0, 1.0]];
        let order = fittest(&losses);
        assert_eq!(order[..2], [2, 3], "the ends have all the room");
        assert_eq!(order[5..], [0, 1]);
        let mut middle = order[2..5].to_vec();
        middle.sort();
        assert_eq!(middle, [4, 5, 6]);
    }

    #[test]
    fn of_one_objective_the_least_loss_is_the_fittest() {
        let losses: [&[f64]; 4] = [&[2.0], &[-1.0], &[f64::MAX], &[0.0]];
        assert_eq!(fittest(&losses), [1, 3, 0, 2]);
    }
}
