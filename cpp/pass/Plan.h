//===- Plan.h - Which marks to make, and where ------------------*- C++ -*-===//
//
// From the writes of a function to its marks: writes of loops become range
// marks in front of them, writes next to each other one mark, and what an
// earlier mark covers none.
//
// Invariant: each write is covered by a mark that is passed before it on every
// path, with no barrier between the two.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_PLAN_H
#define PERDURE_PASS_PLAN_H

#include "Effects.h"
#include "llvm/IR/PassManager.h"

namespace llvm {
class DominatorTree;
class LoopInfo;
class SCEV;
class ScalarEvolution;
class TargetTransformInfo;
} // namespace llvm

namespace perdure {

/// Marks [Pointer + Delta, Size or Length bytes) in front of At.
struct Mark {
  llvm::Instruction *At;
  llvm::Value *Pointer;
  int64_t Delta;
  uint64_t Size;
  llvm::Value *Length; // null: Size counts
  llvm::Align Alignment; // of the first byte
};

/// A write, or several that became one, as scalar evolution sees it.
struct Access {
  llvm::Instruction *At;
  llvm::Value *Pointer;     // null: to be expanded from Start
  const llvm::SCEV *Start;
  uint64_t Size;            // 0: Length counts
  const llvm::SCEV *Length; // null: LengthValue counts
  llvm::Value *LengthValue;
  llvm::Align Alignment;
  bool IsRange = false;     // stands for writes of a loop behind it
};

/// S = the first + the second, and no constant can be taken out of the first.
std::pair<const llvm::SCEV *, int64_t>
splitConstant(const llvm::SCEV *S, llvm::ScalarEvolution &SE);

/// Lines are 64 bytes: when two bytes that are no further apart are marked,
/// all between them are.
constexpr int64_t LineSize = 64;

/// Makes sure that loops which marks may be taken out of have a block in front
/// of them. True if the function was changed.
bool preparePreheaders(const Effects &E, llvm::LoopInfo &LI,
                       llvm::DominatorTree &DT);

/// Takes accesses out of loops, as far as each is a dense range there that is
/// known when the loop is entered.
void hoistFromLoops(llvm::SmallVectorImpl<Access> &Accesses, const Effects &E,
                    llvm::LoopInfo &LI, llvm::DominatorTree &DT,
                    llvm::ScalarEvolution &SE,
                    const llvm::TargetTransformInfo &TTI, Stats &Counts);

/// Joins neighbours and drops what is covered already.
llvm::SmallVector<Mark, 16> mergeMarks(llvm::Function &F,
                                       llvm::ArrayRef<Access> Accesses,
                                       const Effects &E,
                                       const llvm::DominatorTree &DT,
                                       llvm::ScalarEvolution &SE,
                                       Stats &Counts);

/// All of it; or, without optimisation, a mark for each write.
llvm::SmallVector<Mark, 16> plan(llvm::Function &F, const Effects &E,
                                 llvm::FunctionAnalysisManager &FAM,
                                 Stats &Counts);

} // namespace perdure

#endif
