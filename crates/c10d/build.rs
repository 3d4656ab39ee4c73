//! Compiles the C++ shim over libtorch's c10d against `LIBTORCH`.
fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
}
