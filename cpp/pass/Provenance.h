//===- Provenance.h - Pointers that cannot lead into a heap -----*- C++ -*-===//
//
// Invariant: what is called foreign here never lies in the arena. Stacks are
// not in the arena, globals are where the loader put them, and malloc is not
// the heap's (operator new is not trusted: programs replace it).
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_PROVENANCE_H
#define PERDURE_PASS_PROVENANCE_H

#include <optional>

namespace llvm {
class Value;
}

namespace perdure {

enum class Foreign { Stack, Global, Fresh, Segment };

/// Why nothing that Pointer leads to is in the arena, if that is certain.
std::optional<Foreign> foreign(const llvm::Value *Pointer);

} // namespace perdure

#endif
