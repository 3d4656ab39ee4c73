//! What must be equal on all ranks beside the numbers: threads and instruction set. Another one gives other bits, silently.
//! Called at start-up, by `transfer` and by `checkpoint`.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    /// Intra-op threads of a rank.
    pub threads: u32,
    /// What libtorch's kernels are chosen by: `avx512`, `avx2` or `default`, the maker (MKL looks at it), and limits set by
    /// environment; or the GPU's kind.
    pub instruction_set: String,
}

/// Environment variables that make libtorch choose other kernels.
const LIMITS: [&str; 4] = ["ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_ENABLE_INSTRUCTIONS", "MKL_CBWR"];

impl Identity {
    pub fn here(threads: u32, device: &str) -> Identity {
        let kind = if device == "cpu" { cpu() } else { "cuda".into() };
        let limits = LIMITS.iter().filter_map(|name| Some(format!(" {name}={}", std::env::var(name).ok()?)));
        Identity { threads, instruction_set: kind + &limits.collect::<String>() }
    }
}

impl std::fmt::Display for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} thread(s) on {}", self.threads, self.instruction_set)
    }
}

#[cfg(target_arch = "x86_64")]
fn cpu() -> String {
    let wide = ["avx512f", "avx512bw", "avx512vl", "avx512dq"];
    let cpuinfo = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field =
        |name: &str| cpuinfo.lines().find(|line| line.starts_with(name)).and_then(|line| line.split(':').nth(1)).unwrap_or("").trim();
    let flags: Vec<&str> = field("flags").split_whitespace().collect();
    let level = match () {
        () if wide.iter().all(|flag| flags.contains(flag)) => "avx512",
        () if flags.contains(&"avx2") => "avx2",
        () => "default",
    };
    format!("x86_64 {} {level}", field("vendor_id"))
}

#[cfg(not(target_arch = "x86_64"))]
fn cpu() -> String {
    std::env::consts::ARCH.into()
}
