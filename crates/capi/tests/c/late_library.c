/* Compiled by perdure-cc, and loaded by a program that is not (late.c): stores where it is told to. */
void count(long *number) { ++*number; }
