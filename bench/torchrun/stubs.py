#!/usr/bin/env python3
"""Stands in for the CUDA libraries that PyTorch's wheel links to and a CPU-only run never calls, so that it imports without
gigabytes of them. `stubs.py VENV`: for each library that is missing, one of its name beside torch's own, which defines what
torch's libraries want of it; whoever calls into one is ended. Needs binutils and gcc."""

import pathlib
import subprocess
import sys

lib = next(pathlib.Path(sys.argv[1]).glob("lib/python3*/site-packages")) / "torch" / "lib"


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def names(path, *options):
    lines = (line.split() for line in run("nm", "-D", *options, str(path)).splitlines())
    return {fields[-1].split("@")[0] for fields in lines if fields}


# The CUDA runtime is small and there: it lies in a wheel of its own.
for found in lib.parent.parent.glob("nvidia/**/lib/*.so*"):
    if not (lib / found.name).exists():
        (lib / found.name).symlink_to(found)

libraries = [path for path in lib.iterdir() if ".so" in path.name]
wanted, defined, needed = set(), set(), set()
for path in libraries:
    wanted |= names(path, "--undefined-only")
    defined |= names(path, "--defined-only")
    needed |= {line.split("[")[1].rstrip("]") for line in run("readelf", "-d", str(path)).splitlines() if "(NEEDED)" in line}
here = {path.name for path in libraries}
system = {line.split()[0] for line in run("/sbin/ldconfig", "-p").splitlines()[1:]}
missing = sorted(name for name in needed - here - system)

# Names of the C and C++ libraries and of Python are not ours to define; the rest of what nobody defines is CUDA's.
ours = ("cu", "nccl", "nv", "__cu", "__nv", "_ZN5cudnn")
symbols = sorted(name for name in wanted - defined if name.startswith(ours))
source = lib / "stubs.s"
source.write_text(".text\n" + "".join(f".globl {name}\n.type {name},@function\n{name}:\n" for name in symbols) + "ud2\n")
# All symbols lie in a library of another name: the loader insists on versions only in one of the name that is asked for.
link = ("gcc", "-shared", "-nostdlib", "-o")
run(*link, str(lib / "libcudastubs.so"), "-Wl,-soname,libcudastubs.so", str(source))
for name in missing:
    run(*link, str(lib / name), f"-Wl,-soname,{name}", "-Wl,-rpath,$ORIGIN", "-Wl,--no-as-needed", f"-L{lib}", "-lcudastubs")
source.unlink()
print(f"{len(missing)} libraries, {len(symbols)} symbols", file=sys.stderr)
