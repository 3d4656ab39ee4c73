//! What the benchmarks of the decisions share: public data from its folder, and the parts that each measure some figures.

pub mod data;
pub mod parts;
