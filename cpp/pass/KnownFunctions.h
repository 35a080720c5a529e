//===- KnownFunctions.h - What library functions write ----------*- C++ -*-===//
//
// A table of functions of libc, libpthread, libm and the C++ runtime that
// nobody instruments: which ranges they write, or that they write nothing of
// the program's. A function that is not in the table is not known.
//
// Invariant: what a row does not name is not written, for any arguments that
// the standards allow. A row that may be doubted is left out.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_KNOWNFUNCTIONS_H
#define PERDURE_PASS_KNOWNFUNCTIONS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include <cstdint>

namespace llvm {
class CallBase;
}

namespace perdure {

/// How many bytes are written from a pointer on.
enum class Extent : uint8_t {
  Bytes,    // K
  Argument, // argument A
  Product,  // argument A times argument B
  Times,    // argument A times K
  String,   // the string in argument A and its end
  Append,   // the string in the pointer, then the one in argument A
  AppendN,  // the same, of argument A no more than B
  Returned, // as many as the call returns; argument A if it returns less than 0
  Printed,  // as many as the call returns and the end; no more than argument A
  Sprinted, // as many as the call returns and the end; unseen if below 0
};

/// When the mark is made. A callee that may wait for something else writes
/// after commits of other threads, so it is marked after it.
enum class When : uint8_t { Before, After, Both };

struct WriteRule {
  uint8_t Pointer; // number of the argument that points to what is written
  Extent Size;
  When Moment;
  uint8_t A, B;
  uint32_t K;
};

struct KnownFunction {
  /// Neither commits nor synchronises with another thread.
  static constexpr unsigned Quiet = 1;
  /// Writes through its pointer arguments, nobody knows how far.
  static constexpr unsigned Arguments = 2;
  /// Keeps its pointer arguments, and something writes through them later.
  static constexpr unsigned Retains = 4;

  const char *Name;
  unsigned Flags = 0;
  WriteRule Writes[4] = {};
  unsigned Count = 0;

  /// The row of a callee; null if there is none, or if the call does not have
  /// the arguments that the row speaks of.
  static const KnownFunction *find(llvm::StringRef Name);
  bool fits(const llvm::CallBase &Call) const;
};

} // namespace perdure

#endif
