//===- Calls.h - Calls of functions that may not be instrumented -*- C++ -*-===//
//
// Instrumented functions begin with a signature. A module has a table of the
// functions that it calls and does not hold itself, and asks each for the
// signature when the program starts; a callee through a pointer is asked when
// it is called. Around a callee that does not have it, the program is in code
// that nobody sees.
//
// Invariant: whatever the linker or the loader decides (another copy of an
// inline function, a weak function overridden, a library in front of another),
// the function that is called is the one that was asked.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_CALLS_H
#define PERDURE_PASS_CALLS_H

#include "Emit.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace perdure {

class CallEmitter {
public:
  CallEmitter(llvm::Module &M, Emitter &E);

  void emit(const Call &C);
  /// Functions from elsewhere whose addresses are given away: they may be
  /// called at any time. Also main, which nobody calls.
  void watchAddressTaken(Stats &Counts);
  /// Makes the table and the code that asks. Nothing is emitted after it.
  void finish();

  /// Puts the signature at the beginning of a function.
  static void sign(llvm::Function &F);

private:
  void known(llvm::CallBase &Call, const KnownFunction &Row);
  void writeBefore(llvm::CallBase &Call, const WriteRule &R);
  void writeAfter(llvm::CallBase &Call, const WriteRule &R);
  void direct(llvm::CallInst &Call);
  void indirect(llvm::CallInst &Call);
  void invoke(llvm::CallBase &Call);
  void opaque(llvm::CallBase &Call);

  /// Whether the callee lacks the signature.
  llvm::Value *isUnseen(llvm::CallBase &Call);
  /// Calls the callee once more, on a path of its own that is entered and left.
  void duplicate(llvm::CallInst &Call, llvm::Value *Unseen);
  void surround(llvm::CallBase &Call,
                llvm::function_ref<llvm::Value *()> Unseen);
  /// Where a call returns to. Null: it does not, or nothing fits in there.
  llvm::Instruction *afterReturn(llvm::CallBase &Call);
  llvm::Instruction *afterUnwind(llvm::InvokeInst &Call);

  llvm::Module &M;
  Emitter &E;
  llvm::MapVector<llvm::Function *, unsigned> Callees;
  llvm::GlobalVariable *Seen; // a placeholder until the table is known
  llvm::SmallSetVector<llvm::Function *, 16> Watched;
};

} // namespace perdure

#endif
