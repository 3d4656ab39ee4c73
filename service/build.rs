//! Rebuilds the service when what it embeds changes: migrations (`sqlx::migrate!` reads the folder at compile time) and the web page.
//! A build without the page still compiles, and says how to get it.

fn main() {
    println!("cargo:rerun-if-changed=../migrations");
    println!("cargo:rerun-if-changed=.sqlx");
    let dist = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/dist");
    println!("cargo:rerun-if-changed={}", dist.display());
    std::fs::create_dir_all(&dist).expect("the folder web/dist can be made");
}
