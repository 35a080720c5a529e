//! The pass and the program that runs it: the corpus, programs made by chance, the command line.

mod corpus;
mod house;
mod program;
mod random;
mod wrapper;
