//! C and C++ programs against the library as they would be built by anybody: with the system's compiler, the headers and the shared or the static
//! library.

#![allow(clippy::print_stdout)] // seeds are for people

mod at_calls;
mod build;
mod corpus;
mod heaps;
mod kyoto;
mod lua;
mod msync;
mod refused;
mod tsan;
mod ycsb;
