//! `--help`: what the options do, in the words of their users.

/// The whole text.
pub const HELP: &str = "\
Usage: pmawk [options] 'program' [file ...]
       pmawk [options] -f progfile [-f progfile ...] [file ...]

Runs an AWK program, in the language of gawk 5.3, whose global variables, arrays and functions can outlive it in a heap
file.

The program
  -f FILE, --file=FILE              read it from FILE, looked for in AWKPATH; may be repeated
  -e TEXT, --source=TEXT            TEXT is (part of) it; may be mixed with -f
  -E FILE, --exec=FILE              as -f, but ends the options, and operands are no assignments: for scripts with #!
  -i FILE, --include=FILE           include FILE before what follows, as @include does
  -l NAME, --load=NAME              load a library, as @load does
  -F FS, --field-separator=FS       set FS before anything runs
  -v NAME=VALUE, --assign=...       assign before BEGIN; escape sequences count
  --                                end of options

The heap
  --persist=FILE                    keep globals and functions in heap FILE (made if it does not exist);
                                    PMAWK_HEAP or GAWK_PERSIST_FILE in the environment do the same
  --snapshot                        read the last commit and forget all changes
  --lazy                            do not wait for the medium: after a power cut the heap may be at an earlier commit
  --commit-every=N                  commit after every N records, not only at the end
  --resume[=JOB]                    go on in each input file where the job's last commit left off, also in growing and
                                    rotated logs: every line is counted exactly once
  --lock-timeout=SECONDS            how long to wait for another writer (60)
  --trust                           open a heap that others own or may write

The language
  -b, --characters-as-bytes         a character is a byte
  -c, --traditional                 the AWK of 1988, without gawk's extensions
  -P, --posix                       POSIX AWK, without gawk's extensions
  -r, --re-interval                 {n,m} in regular expressions, with -c too
  -k, --csv[=in|out|both]           input (in, the default) or output of `print` is comma-separated values
  --tsv[=in|out|both]               the same with tabs, and \\t, \\n and \\\\ for what they say
  --json-lines[=NAME]               each record is a JSON value, which array NAME (J) holds
  -L[KIND], --lint[=KIND]           warn of what is doubtful or not portable; KIND: fatal, invalid, no-ext
  -t, --lint-old                    warn of what the first AWK had not
  -M, --bignum                      integers of any size; floats of PREC bits, rounded as ROUNDMODE says
  -n, --non-decimal-data            0x11 and 011 in input are hexadecimal and octal
  -N, --use-lc-numeric              the locale's decimal point, in data and in output; --posix too
  -S, --sandbox                     no commands, no files but the operands, no libraries
  -j N, --jobs=N                    N processes share the files, where records do not depend on each other and END prints what
                                    they made: sums, counts, extremes, lists; the result is that of one process
  --explain-parallel                say on standard error what -j (one process for each processor) did, or why it did not
  --native=WHEN                     loops and functions of numbers run as machine code WHEN: hot (the default), always, never
  -s, --no-optimize; -O, --optimize without machine code and without taking many records at once; with all of it (the default)

Looking into a program
  -o[FILE], --pretty-print[=FILE]   write it, laid out, to FILE (awkprof.out; - is standard output), and do not run it
  -D[FILE], --debug[=FILE]          run it in the debugger, with the commands in FILE; `help` there says more
  -p[FILE], --profile[=FILE]        after the run write it, laid out, with how often each part ran, to FILE (awkprof.out)
  -I, --trace                       show each statement before it runs
  -d[FILE], --dump-variables[=FILE] after the run write all global variables to FILE (awkvars.out)
  -g, --gen-pot                     write its translatable texts as a .pot file and do not run it
  --dump=tokens,ast,types,code      show stages of its translation instead of running it
  -V, --version; -C, --copyright; -h, --help

Exit status: that of `exit` in the program, else 0; 1 for errors on the command line or in the program text; 2 for fatal
errors while running, 141 if the reader of the output went away, after which the heap is as it was before the run.
";
