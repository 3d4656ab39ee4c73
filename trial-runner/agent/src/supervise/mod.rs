//! Worker processes: started, heard, watched and ended. `agent` decides which; nothing here does.

pub mod checkpoint;
pub mod exit;
pub mod incarnations;
pub mod launch;
pub mod link;
pub mod liveness;
pub mod logs;
pub mod process;
