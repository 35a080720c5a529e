//! C and C++ programs against the library as they would be built by anybody: with the system's compiler, the headers and the shared or the static
//! library.

mod build;
mod heaps;
mod lua;
mod msync;
mod ycsb;
