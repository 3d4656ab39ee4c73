//! The simulator gives the results that Pollux's artefact prints for its two deterministic policies. Skips, loudly, without the data.

use bench_brain::data;
use bench_brain::parts::pollux::{optimus, run, tiresias};

#[test]
fn workload_6_ends_as_published() {
    let Some(folder) = data::folder() else { return };
    let profiles = data::profiles(&folder).expect("the profiles can be read");
    let requests = data::workload(&folder, 6).expect("the workload can be read");
    assert_eq!(requests.len(), 160);
    for (setup, published_s) in [(tiresias(), 3469.69), (optimus(), 5301.88)] {
        let mean_s = run(&profiles, &requests, &setup).expect("all jobs end").mean_s();
        assert!((mean_s / published_s - 1.0).abs() < 0.01, "{mean_s} s, published {published_s} s");
    }
}
