//! Finds libtorch: beside an installed binary, else where it was built against.
fn main() {
    println!("cargo:rerun-if-env-changed=LIBTORCH");
    let Some(libtorch) = std::env::var_os("LIBTORCH") else {
        eprintln!("LIBTORCH is not set; run: make setup");
        std::process::exit(1);
    };
    println!("cargo:rustc-link-arg=-Wl,-rpath,$ORIGIN/../lib:{}/lib", std::path::Path::new(&libtorch).display());
}
