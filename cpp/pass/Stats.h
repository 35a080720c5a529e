//===- Stats.h - What became of each store ----------------------*- C++ -*-===//
//
// Counts of one module. Every store that is seen ends in exactly one of the
// rows below "seen"; a call in one of the rows of calls.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_STATS_H
#define PERDURE_PASS_STATS_H

#include "llvm/ADT/StringRef.h"
#include <array>
#include <cstdint>

namespace perdure {

enum class Count : unsigned {
  Seen,          // stores of all kinds, block copies and known callees' writes
  Inline,        // a check of its own in front of it
  Merged,        // covered by the check of a store next to it
  Redundant,     // covered by an earlier mark, with no commit in between
  Hoisted,       // covered by a mark of a range in front of its loop
  Stack,         // skipped: the function's own stack
  Global,        // skipped: a global, thread-local or constant object
  Fresh,         // skipped: fresh from malloc and the like
  Segment,       // skipped: relative to a segment register
  Ranges,        // range marks in front of loops
  CallsMarked,   // known functions that write; what they write is marked
  CallsHarmless, // known to write nothing of the program's
  CallsSeen,     // of functions that are instrumented here
  CallsRunTime,  // decided when the program runs
  CallsIndirect, // through pointers: the callee is asked when it is called
  CallsUnseen,   // known not to be seen: commits ask the kernel
  AddressTaken,  // functions from elsewhere that may be called by others
  Ignored,       // functions left as they are, by the user's wish
  Last
};

class Stats {
public:
  void add(Count C, uint64_t N = 1) { Counts[unsigned(C)] += N; }
  /// Adds the module's line to the file that the options name, if any.
  void write(llvm::StringRef Module) const;

private:
  std::array<uint64_t, unsigned(Count::Last)> Counts{};
};

} // namespace perdure

#endif
