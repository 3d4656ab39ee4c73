//! GPUs as NVIDIA's management library lists them; it is opened at run time, so that one program serves every machine.

use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;

use super::Gpu;

/// In the driver's order (by PCI bus). Empty where there is no driver, with a warning where it is there and answers an error.
pub(super) fn gpus() -> Vec<Gpu> {
    let nvml = match Nvml::init() {
        Ok(nvml) => nvml,
        Err(NvmlError::LibloadingError(_) | NvmlError::DriverNotLoaded | NvmlError::LibraryNotFound) => return Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "the NVIDIA driver is there but does not answer; going on without GPUs");
            return Vec::new();
        }
    };
    let count = nvml.device_count().unwrap_or_default();
    (0..count)
        .filter_map(|index| describe(&nvml, index).inspect_err(|error| tracing::warn!(%error, index, "leaving a GPU out")).ok())
        .collect()
}

fn describe(nvml: &Nvml, index: u32) -> Result<Gpu, NvmlError> {
    let device = nvml.device_by_index(index)?;
    Ok(Gpu { index, uuid: device.uuid()?, name: device.name()?, memory_bytes: device.memory_info()?.total })
}
