//! Compiles the C++ shim over libtorch's c10d against `LIBTORCH`, and tells dependents where its libraries lie.

use std::path::PathBuf;
use std::process::ExitCode;

const NO_LIBTORCH: &str =
    "LIBTORCH names no libtorch folder (include/ and lib/): run `make setup`, which installs one, and export LIBTORCH";

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=shim/c10d.cpp");
    for name in ["LIBTORCH", "CUDA_HOME", "NCCL_HOME", "GLOO_INCLUDE"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    match build() {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("c10d: {message}");
            ExitCode::FAILURE
        }
    }
}

fn folder(name: &str) -> Option<PathBuf> {
    std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from)
}

fn build() -> Result<(), String> {
    let libtorch = folder("LIBTORCH").ok_or(NO_LIBTORCH)?;
    let include = libtorch.join("include");
    if !include.join("torch/csrc/distributed/c10d/ProcessGroupGloo.hpp").exists() {
        return Err(NO_LIBTORCH.into());
    }
    // libtorch ships its c10d headers without Gloo's, which they include.
    let gloo = folder("GLOO_INCLUDE").unwrap_or_else(|| "/usr/include".into());
    if !gloo.join("gloo/context.h").exists() {
        return Err(format!("no Gloo headers in {}: run `make setup`, or `apt-get install libgloo-dev`", gloo.display()));
    }
    let cuda = std::env::var_os("CARGO_FEATURE_CUDA").is_some();

    let mut includes = vec![include.clone(), include.join("torch/csrc/api/include")];
    if gloo.as_os_str() != "/usr/include" {
        includes.push(gloo);
    }
    let mut shim = cc::Build::new();
    shim.cpp(true).std("c++17").file("shim/c10d.cpp").define("USE_DISTRIBUTED", None).define("USE_C10D_GLOO", None);
    if cuda {
        let home = folder("CUDA_HOME").unwrap_or_else(|| "/usr/local/cuda".into());
        shim.define("USE_C10D_NCCL", None);
        includes.extend([home.join("include"), home.join("include/cccl")]);
        includes.extend(folder("NCCL_HOME").map(|nccl| nccl.join("include")));
    }
    for folder in includes {
        // As system headers: their warnings are not ours.
        shim.flag("-isystem").flag(folder.display().to_string());
    }
    shim.try_compile("elastune_c10d").map_err(|error| error.to_string())?;

    let lib = libtorch.join("lib");
    println!("cargo:rustc-link-search=native={}", lib.display());
    println!("cargo:rustc-link-lib=torch_cpu");
    println!("cargo:rustc-link-lib=c10");
    if cuda {
        println!("cargo:rustc-link-lib=torch_cuda");
        println!("cargo:rustc-link-lib=c10_cuda");
    }
    // This crate's own tests; dependents do the same with what `links` gives them: DEP_ELASTUNE_C10D_LIB.
    println!("cargo:rustc-link-arg=-Wl,-rpath,{}", lib.display());
    println!("cargo:lib={}", lib.display());
    Ok(())
}
