//! libtorch's errors: tch panics with their text, so they are caught in one place and sorted. Called by `main`.

use std::panic::{AssertUnwindSafe, catch_unwind};

use elastune_api::agent::Exit;

/// Texts of allocators that have no more to give.
const OUT_OF_MEMORY: [&str; 3] = ["DefaultCPUAllocator: can't allocate memory", "CUDA out of memory", "not enough memory"];

/// Runs `work`; a panic becomes the exit that it means.
pub fn guard<T>(work: impl FnOnce() -> T) -> Result<T, Exit> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|panic| {
        let text = panic.downcast_ref::<String>().cloned().or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        exit(&text.unwrap_or_else(|| "a panic without a text".into()))
    })
}

fn exit(text: &str) -> Exit {
    if OUT_OF_MEMORY.iter().any(|known| text.contains(known)) {
        return Exit::OutOfMemory { peak_bytes: peak_bytes() };
    }
    Exit::Lost { message: first_line(text) }
}

/// What a person should read of a panic: libtorch's own sentence, without how Rust met it and where C++ was.
pub fn first_line(text: &str) -> String {
    let text = text.split_once("value: Torch(\"").map_or(text, |(_, rest)| rest.split_once("\\n").map_or(rest, |(first, _)| first));
    text.lines().next().unwrap_or_default().chars().take(500).collect()
}

/// The most memory that this process has held; 0 if the system doesn't say.
fn peak_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.split_whitespace().next())
        .and_then(|kilobytes| kilobytes.parse::<u64>().ok())
        .map_or(0, |kilobytes| kilobytes << 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_too_large_is_out_of_memory() {
        let outcome = guard(|| tch::Tensor::zeros([1 << 45], (tch::Kind::Float, tch::Device::Cpu)));
        assert!(matches!(outcome, Err(Exit::OutOfMemory { peak_bytes }) if peak_bytes > 0), "{outcome:?}");
    }

    #[test]
    fn other_errors_keep_their_text() {
        let outcome = guard(|| tch::Tensor::from_slice(&[1f32, 2.0]).view([3]));
        assert_eq!(outcome.map(|_| ()), Err(Exit::Lost { message: "shape '[3]' is invalid for input of size 2".into() }));
    }
}
