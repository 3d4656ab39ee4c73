//! Pure readings of `--devices`, CUDA_VISIBLE_DEVICES and /proc/meminfo. Called by `devices`.

use std::str::FromStr;

use super::Gpu;

/// What `--devices` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceChoice {
    /// GPUs, else CPU cores.
    Auto,
    /// This many CPU slots; None: one a core.
    Cpu(Option<u16>),
    /// Indices among the visible GPUs, without repetition.
    Gpus(Vec<u16>),
}

impl FromStr for DeviceChoice {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("`{text}` is not auto, cpu, cpu:N (1 to 1024) or GPU indices such as 0,1");
        match text {
            "auto" => return Ok(DeviceChoice::Auto),
            "cpu" => return Ok(DeviceChoice::Cpu(None)),
            _ => {}
        }
        if let Some(count) = text.strip_prefix("cpu:") {
            let count: u16 = count.parse().map_err(|_| usage())?;
            return if (1..=1024).contains(&count) { Ok(DeviceChoice::Cpu(Some(count))) } else { Err(usage()) };
        }
        let mut indices = Vec::new();
        for part in text.split(',') {
            let index: u16 = part.trim().parse().map_err(|_| usage())?;
            if indices.contains(&index) {
                return Err(format!("GPU {index} is named twice"));
            }
            indices.push(index);
        }
        Ok(DeviceChoice::Gpus(indices))
    }
}

/// One entry of CUDA_VISIBLE_DEVICES.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VisibleGpu {
    Index(u32),
    /// A prefix of the uuid, `GPU-...`.
    Uuid(String),
}

/// The GPUs that CUDA would show, in its order. Unset: all. As in CUDA, what follows an entry that names no GPU is ignored.
pub fn visible(gpus: &[Gpu], cuda_visible: Option<&str>) -> Vec<Gpu> {
    let Some(list) = cuda_visible else { return gpus.to_vec() };
    let mut shown: Vec<Gpu> = Vec::new();
    for entry in entries(list) {
        let found = match &entry {
            VisibleGpu::Index(index) => gpus.iter().find(|gpu| gpu.index == *index),
            VisibleGpu::Uuid(prefix) => gpus.iter().find(|gpu| gpu.uuid.starts_with(prefix.as_str())),
        };
        match found {
            Some(gpu) if !shown.contains(gpu) => shown.push(gpu.clone()),
            // CUDA shows nothing at all where a device is repeated.
            Some(_) => return Vec::new(),
            None => break,
        }
    }
    shown
}

fn entries(list: &str) -> Vec<VisibleGpu> {
    let mut entries = Vec::new();
    for part in list.split(',').map(str::trim) {
        if let Ok(index) = part.parse::<u32>() {
            entries.push(VisibleGpu::Index(index));
        } else if part.starts_with("GPU-") {
            entries.push(VisibleGpu::Uuid(part.to_owned()));
        } else {
            break;
        }
    }
    entries
}

/// MemTotal of /proc/meminfo, in bytes.
pub fn mem_total_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_choices() {
        assert_eq!("auto".parse(), Ok(DeviceChoice::Auto));
        assert_eq!("cpu".parse(), Ok(DeviceChoice::Cpu(None)));
        assert_eq!("cpu:4".parse(), Ok(DeviceChoice::Cpu(Some(4))));
        assert_eq!("0,2".parse(), Ok(DeviceChoice::Gpus(vec![0, 2])));
        for bad in ["", "cpu:0", "cpu:x", "cpu:9999", "0,0", "-1", "0,,1", "gpu"] {
            assert!(bad.parse::<DeviceChoice>().is_err(), "{bad}");
        }
    }

    #[test]
    fn cuda_visible_devices_as_cuda_reads_it() {
        let gpus: Vec<Gpu> = ["GPU-aa", "GPU-bb", "GPU-cc"]
            .iter()
            .enumerate()
            .map(|(index, uuid)| Gpu { index: index as u32, uuid: (*uuid).into(), name: "x".into(), memory_bytes: 1 })
            .collect();
        let shown = |list: Option<&str>| visible(&gpus, list).iter().map(|gpu| gpu.index).collect::<Vec<_>>();
        assert_eq!(shown(None), [0, 1, 2]);
        assert_eq!(shown(Some("2,0")), [2, 0]);
        assert_eq!(shown(Some("GPU-b, 0")), [1, 0]);
        assert_eq!(shown(Some("1,7,0")), [1], "ends at the first that isn't there");
        assert_eq!(shown(Some("1,-1,0")), [1]);
        assert_eq!(shown(Some("1,1")), [0; 0]);
        assert_eq!(shown(Some("")), [0; 0]);
    }

    #[test]
    fn memory() {
        assert_eq!(mem_total_bytes("MemTotal:       16 kB\nMemFree: 1 kB\n"), Some(16 * 1024));
        assert_eq!(mem_total_bytes("nothing"), None);
    }
}
