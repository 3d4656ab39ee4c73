//! This machine's devices: NVIDIA GPUs if there are any, else one slot a CPU core. Called once, at the agent's start.

mod nvml;
mod parse;

use anyhow::{Result, bail};
use elastune_core::model::cluster::Device;
use elastune_core::model::study::DeviceKind;

pub use parse::{DeviceChoice, VisibleGpu, visible};

/// A GPU as the driver lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    pub index: u32,
    pub uuid: String,
    pub name: String,
    pub memory_bytes: u64,
}

/// A device that is offered to the cluster, and how a worker is confined to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocalDevice {
    pub device: Device,
    /// The GPU's uuid, the child's CUDA_VISIBLE_DEVICES; None on a CPU slot.
    pub gpu_uuid: Option<String>,
}

impl LocalDevice {
    /// As in `WorkerConfig::device`: a GPU worker sees one GPU only, hence 0.
    pub fn torch_name(&self) -> String {
        match self.gpu_uuid {
            Some(_) => "cuda:0".into(),
            None => "cpu".into(),
        }
    }
}

/// Memory below which a GPU is not split further.
const SHARER_BYTES: u64 = 2 << 30;

/// The devices that `choice` names on this machine. Errors: a GPU that isn't there.
pub fn discover(choice: &DeviceChoice, max_sharers: u8) -> Result<Vec<LocalDevice>> {
    let cuda_visible = std::env::var("CUDA_VISIBLE_DEVICES").ok();
    let gpus = match choice {
        DeviceChoice::Cpu(_) => Vec::new(),
        DeviceChoice::Auto | DeviceChoice::Gpus(_) => visible(&nvml::gpus(), cuda_visible.as_deref()),
    };
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    select(choice, &gpus, cores, total_memory_bytes(), max_sharers)
}

fn select(choice: &DeviceChoice, gpus: &[Gpu], cores: usize, memory_bytes: u64, max_sharers: u8) -> Result<Vec<LocalDevice>> {
    let chosen: Vec<&Gpu> = match choice {
        DeviceChoice::Auto => gpus.iter().collect(),
        DeviceChoice::Cpu(_) => Vec::new(),
        DeviceChoice::Gpus(wanted) => {
            let mut chosen = Vec::new();
            for index in wanted {
                match gpus.get(usize::from(*index)) {
                    Some(gpu) => chosen.push(gpu),
                    None => bail!("--devices names GPU {index}, but {} GPUs are visible; use --devices cpu or a lower index", gpus.len()),
                }
            }
            chosen
        }
    };
    if !chosen.is_empty() {
        return Ok(chosen.iter().enumerate().map(|(index, gpu)| gpu_device(index as u16, gpu, max_sharers)).collect());
    }
    let slots = match choice {
        DeviceChoice::Cpu(Some(slots)) => usize::from(*slots),
        _ => cores.clamp(1, 1024),
    };
    Ok((0..slots).map(|index| cpu_device(index as u16, memory_bytes / slots as u64)).collect())
}

fn gpu_device(index: u16, gpu: &Gpu, max_sharers: u8) -> LocalDevice {
    let fit = (gpu.memory_bytes / SHARER_BYTES).clamp(1, u64::from(max_sharers)) as u8;
    LocalDevice {
        device: Device { index, kind: DeviceKind::Gpu, name: gpu.name.clone(), memory_bytes: gpu.memory_bytes, max_sharers: fit },
        gpu_uuid: Some(gpu.uuid.clone()),
    }
}

fn cpu_device(index: u16, memory_bytes: u64) -> LocalDevice {
    LocalDevice { device: Device { index, kind: DeviceKind::Cpu, name: "cpu".into(), memory_bytes, max_sharers: 1 }, gpu_uuid: None }
}

fn total_memory_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    parse::mem_total_bytes(&text).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(count: u32) -> Vec<Gpu> {
        (0..count)
            .map(|index| Gpu { index, uuid: format!("GPU-{index}"), name: "H200".into(), memory_bytes: u64::from(index + 1) * (3 << 30) })
            .collect()
    }

    #[test]
    fn gpus_come_first_and_cores_where_there_are_none() {
        let found = select(&DeviceChoice::Auto, &gpus(3), 8, 0, 4).expect("there are GPUs");
        assert_eq!(found.iter().map(|d| d.device.max_sharers).collect::<Vec<_>>(), [1, 3, 4], "what memory allows, at most 4");
        assert!(found.iter().all(|d| d.torch_name() == "cuda:0"));
        let found = select(&DeviceChoice::Auto, &[], 8, 80, 4).expect("there are cores");
        assert_eq!(found.len(), 8);
        assert!(found.iter().all(|d| d.device.kind == DeviceKind::Cpu && d.device.max_sharers == 1 && d.device.memory_bytes == 10));
    }

    #[test]
    fn a_choice_is_kept_to() {
        let found = select(&DeviceChoice::Gpus(vec![2, 0]), &gpus(3), 8, 0, 4).expect("both are there");
        assert_eq!(found.iter().map(|d| d.gpu_uuid.clone().expect("a GPU")).collect::<Vec<_>>(), ["GPU-2", "GPU-0"]);
        assert_eq!(found.iter().map(|d| d.device.index).collect::<Vec<_>>(), [0, 1], "indices are this node's own");
        assert_eq!(select(&DeviceChoice::Cpu(Some(3)), &gpus(3), 8, 0, 4).expect("CPU").len(), 3);
        assert!(select(&DeviceChoice::Gpus(vec![3]), &gpus(3), 8, 0, 4).expect_err("no such GPU").to_string().contains("--devices"));
    }
}
