//===- Effects.h - What each instruction writes -----------------*- C++ -*-===//
//
// Sorts the instructions of a function: ranges that are written, calls and
// what is known of their callees, and where a commit or a synchronisation
// with another thread may happen (a barrier). Reads the function only.
//
// Invariant: a write that is not listed is skipped for a counted reason, or
// is one of a callee that is listed among the calls.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_EFFECTS_H
#define PERDURE_PASS_EFFECTS_H

#include "KnownFunctions.h"
#include "Stats.h"
#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/IR/Instructions.h"
#include "llvm/Support/Alignment.h"

namespace llvm {
class IntrinsicInst;
class TargetLibraryInfo;
}

namespace perdure {

/// A range of memory that an instruction is about to write.
struct Write {
  llvm::Instruction *At;
  llvm::Value *Pointer;
  uint64_t Size;      // bytes, if Length is null
  llvm::Value *Length; // bytes, of any integer type
  llvm::Align Alignment;
};

/// A store that writes some lanes of a vector.
struct LaneWrite {
  enum Shape { Contiguous, Compressed, Scattered } Kind;
  llvm::Instruction *At;
  llvm::Value *Pointer; // or, scattered, the vector of pointers
  llvm::Value *Mask;    // null: all
  llvm::Value *Count;   // null: all; else lanes from this number on are idle
  unsigned Lanes;
  uint64_t LaneSize;
};

/// How a call is treated.
enum class Callee {
  Known,   // by its row: marks before and after
  Direct,  // whether it is instrumented is found when the program starts
  Indirect, // ... when it is called
  Opaque,  // it is not, and it may write anything
};

struct Call {
  Callee Kind;
  llvm::CallBase *At;
  const KnownFunction *Row = nullptr;
};

/// The function that a call names; null if the linker may put another in its
/// place without changing its name here (a weak alias), or if it names none.
llvm::Function *calledFunction(const llvm::CallBase &Call);

/// Functions of this module, and what was found out about them.
struct ModuleFacts {
  /// Left as they are.
  llvm::SmallPtrSet<const llvm::Function *, 8> Ignored;
  /// Neither commit nor synchronise, nor does anything that they call.
  llvm::SmallPtrSet<const llvm::Function *, 16> Quiet;
};

class Effects {
public:
  llvm::SmallVector<Write, 16> Writes;
  llvm::SmallVector<LaneWrite, 2> LaneWrites;
  llvm::SmallVector<Call, 8> Calls;

  Effects(llvm::Function &F, const llvm::TargetLibraryInfo &TLI,
          const ModuleFacts &Facts, Stats &Counts);

  /// Whether a commit may happen in I, or another thread may see there what
  /// was stored before.
  bool isBarrier(const llvm::Instruction &I) const {
    return Barriers.contains(&I);
  }
  bool hasBarriers() const { return !Barriers.empty(); }
  bool isBarrier(const llvm::BasicBlock &B) const {
    return BarrierBlocks.contains(&B);
  }

private:
  void visitCall(llvm::CallBase &Call);
  void visitIntrinsic(llvm::IntrinsicInst &I);
  bool visitTargetIntrinsic(llvm::IntrinsicInst &I);
  void visitAssembly(llvm::CallBase &Call);
  /// Lists a write, unless its pointer is foreign.
  void write(llvm::Instruction &At, llvm::Value *Pointer, uint64_t Size,
             llvm::Align Alignment, llvm::Value *Length = nullptr);
  bool skip(const llvm::Value *Pointer);
  void lanes(LaneWrite W);
  void barrier(const llvm::Instruction &I);

  const llvm::DataLayout &DL;
  const llvm::TargetLibraryInfo &TLI;
  const ModuleFacts &Facts;
  Stats &Counts;
  llvm::SmallPtrSet<const llvm::Instruction *, 16> Barriers;
  llvm::SmallPtrSet<const llvm::BasicBlock *, 16> BarrierBlocks;
};

} // namespace perdure

#endif
