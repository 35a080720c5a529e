//===- Loops.cpp - Range marks in front of loops --------------------------===//
//
// A write whose address goes up or down by a constant step becomes one mark of
// the range in front of the loop, if it happens in every iteration, their
// number is known when the loop is entered, the loop holds no barrier, and
// the range has no gaps as large as a line: a mark of lines that nobody stores
// to would be sound, but the next commit would have to write them.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/LoopUtils.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;
using namespace perdure;

/// What the computation of a range may cost, in the units of isHighCost-
/// Expansion: a few instructions, no division.
static constexpr unsigned ExpansionBudget = 64;

static bool hasBarrier(const Loop &L, const Effects &E) {
  return any_of(L.blocks(), [&](BasicBlock *B) { return E.isBarrier(*B); });
}

bool perdure::preparePreheaders(const Effects &E, LoopInfo &LI,
                                DominatorTree &DT) {
  SmallPtrSet<const Loop *, 8> Wanted;
  for (const Write &W : E.Writes)
    for (Loop *L = LI.getLoopFor(W.At->getParent()); L; L = L->getParentLoop())
      Wanted.insert(L);
  bool Changed = false;
  for (Loop *L : LI.getLoopsInPreorder())
    if (Wanted.contains(L) && !L->getLoopPreheader() && !hasBarrier(*L, E))
      Changed |= InsertPreheaderForLoop(L, &DT, &LI, nullptr, false) != nullptr;
  return Changed;
}

namespace {

/// How often a block of a loop runs.
enum class Times {
  Never,       // nothing is known
  EachRun,     // once for each time that the header runs
  EachReturn,  // once for each time that the loop goes back: one time less
};

class Hoister {
public:
  Hoister(Loop &L, DominatorTree &DT, ScalarEvolution &SE,
          const TargetTransformInfo &TTI, const DataLayout &DL)
      : L(L), DT(DT), SE(SE), TTI(TTI), Expander(SE, DL, "perdure"),
        At(L.getLoopPreheader()->getTerminator()),
        Word(Type::getInt64Ty(SE.getContext())) {
    L.getLoopLatches(Latches);
    L.getExitingBlocks(Exiting);
    const SCEV *Count = SE.getBackedgeTakenCount(&L);
    if (!isa<SCEVCouldNotCompute>(Count) &&
        SE.getTypeSizeInBits(Count->getType()) <= 64)
      Returns = SE.getTruncateOrZeroExtend(Count, Word);
  }

  Times times(const BasicBlock *B) const {
    if (!all_of(Latches, [&](BasicBlock *X) { return DT.dominates(B, X); }))
      return Times::Never;
    if (all_of(Exiting, [&](BasicBlock *X) { return DT.dominates(B, X); }))
      return Times::EachRun;
    if (all_of(Exiting, [&](BasicBlock *X) {
          return X != B && DT.dominates(X, B);
        }))
      return Times::EachReturn;
    return Times::Never;
  }

  /// The range that [Start, Size or Length) runs through, if it is to be
  /// marked in front of the loop.
  std::optional<Access> range(const SCEV *Start, uint64_t Size,
                              const SCEV *Length, Times T, Align Alignment) {
    Access Range{At,     nullptr, Start,     Size,
                 Length, nullptr, Alignment, /*IsRange=*/true};
    if (SE.isLoopInvariant(Start, &L)) {
      if (T != Times::EachRun || (Length && !SE.isLoopInvariant(Length, &L)))
        return std::nullopt;
    } else {
      const auto *R = dyn_cast<SCEVAddRecExpr>(Start);
      if (!R || R->getLoop() != &L || !R->isAffine() || !Returns)
        return std::nullopt;
      if (Length ? !runOfRanges(Range, R, T) : !runOfStores(Range, R, T))
        return std::nullopt;
      Range.Alignment = Align(1);
      if (const auto *C = dyn_cast<SCEVConstant>(Range.Length)) {
        Range.Size = C->getAPInt().getLimitedValue();
        Range.Length = nullptr;
        if (!Range.Size)
          return std::nullopt;
      } else {
        Range.Size = 0;
      }
    }
    SmallVector<const SCEV *, 2> Needed{Range.Start};
    if (Range.Length)
      Needed.push_back(Range.Length);
    for (const SCEV *S : Needed)
      if (!Expander.isSafeToExpandAt(S, At))
        return std::nullopt;
    if (Expander.isHighCostExpansion(Needed, &L, ExpansionBudget, &TTI, At))
      return std::nullopt;
    return Range;
  }

private:
  bool runOfStores(Access &Range, const SCEVAddRecExpr *R, Times T) {
    const auto *Step = dyn_cast<SCEVConstant>(R->getStepRecurrence(SE));
    if (!Step || Step->getAPInt().getSignificantBits() > 32)
      return false;
    int64_t By = Step->getAPInt().getSExtValue();
    uint64_t Stride = By < 0 ? -By : By;
    if (Stride > Range.Size + LineSize - 1)
      return false;
    const SCEV *Way = SE.getMulExpr(Returns, SE.getConstant(Word, Stride));
    if (T == Times::EachRun) {
      // From the first to the last of Returns + 1 stores.
      Range.Length = SE.getAddExpr(Way, SE.getConstant(Word, Range.Size));
      Range.Start = By < 0 ? SE.getMinusSCEV(R->getStart(), Way)
                           : R->getStart();
    } else {
      // Of Returns stores, which may be none.
      if (Range.Size > Stride)
        return false;
      Range.Length = Way;
      Range.Start =
          By < 0 ? SE.getMinusSCEV(SE.getAddExpr(R->getStart(),
                                                 SE.getConstant(Word, Stride)),
                                   Way)
                 : R->getStart();
    }
    return true;
  }

  /// Rows of a matrix: each range ends where the next begins, or a little
  /// earlier. A length is never negative, so the step is not either.
  bool runOfRanges(Access &Range, const SCEVAddRecExpr *R, Times T) {
    if (T != Times::EachRun || !SE.isLoopInvariant(Range.Length, &L))
      return false;
    const SCEV *Step = R->getStepRecurrence(SE);
    if (Step->getType() != Word)
      return false;
    const auto *Gap =
        dyn_cast<SCEVConstant>(SE.getMinusSCEV(Step, Range.Length));
    if (!Gap || Gap->getAPInt().isNegative() ||
        Gap->getAPInt().uge(LineSize))
      return false;
    Range.Length = SE.getAddExpr(SE.getMulExpr(Returns, Step), Range.Length);
    Range.Start = R->getStart();
    return true;
  }

  Loop &L;
  DominatorTree &DT;
  ScalarEvolution &SE;
  const TargetTransformInfo &TTI;
  SCEVExpander Expander;
  Instruction *At;
  Type *Word;
  SmallVector<BasicBlock *, 2> Latches;
  SmallVector<BasicBlock *, 4> Exiting;
  const SCEV *Returns = nullptr; // null: not known
};

} // namespace

static void hoistFromLoop(Loop &L, SmallVectorImpl<Access> &Accesses,
                          Hoister &H, ScalarEvolution &SE, Stats &Counts) {
  // Stores that differ by a constant only are one run: unrolled and
  // interleaved loops store to each line in several steps.
  struct Member {
    size_t Index;
    int64_t Low;
  };
  MapVector<std::pair<const SCEV *, Times>, SmallVector<Member, 4>> Runs;
  SmallVector<Access, 4> Hoisted;
  SmallPtrSet<const Access *, 16> Gone;
  for (size_t I = 0; I != Accesses.size(); ++I) {
    Access &A = Accesses[I];
    if (!L.contains(A.At->getParent()))
      continue;
    Times T = H.times(A.At->getParent());
    if (T == Times::Never)
      continue;
    if (A.Size) {
      auto [Base, Low] = splitConstant(A.Start, SE);
      Runs[{Base, T}].push_back({I, Low});
    } else if (A.Length) {
      if (auto Range = H.range(A.Start, 0, A.Length, T, A.Alignment)) {
        Hoisted.push_back(*Range);
        Gone.insert(&A);
      }
    }
  }
  for (auto &[Key, Members] : Runs) {
    llvm::stable_sort(Members, [](const Member &X, const Member &Y) {
      return X.Low < Y.Low;
    });
    for (size_t I = 0; I != Members.size();) {
      const Access &First = Accesses[Members[I].Index];
      int64_t Low = Members[I].Low, High = Low + int64_t(First.Size);
      size_t End = I + 1;
      for (; End != Members.size() && Members[End].Low - High < LineSize; ++End)
        High = std::max(High, Members[End].Low +
                                  int64_t(Accesses[Members[End].Index].Size));
      if (auto Range = H.range(First.Start, High - Low, nullptr, Key.second,
                               First.Alignment)) {
        Hoisted.push_back(*Range);
        for (; I != End; ++I)
          Gone.insert(&Accesses[Members[I].Index]);
      }
      I = End;
    }
  }
  if (Gone.empty())
    return;
  SmallVector<Access, 16> Left;
  for (Access &A : Accesses) {
    if (!Gone.contains(&A))
      Left.push_back(A);
    else if (!A.IsRange)
      Counts.add(Count::Hoisted);
  }
  append_range(Left, Hoisted);
  Accesses = std::move(Left);
}

void perdure::hoistFromLoops(SmallVectorImpl<Access> &Accesses,
                             const Effects &E, LoopInfo &LI, DominatorTree &DT,
                             ScalarEvolution &SE,
                             const TargetTransformInfo &TTI, Stats &Counts) {
  if (Accesses.empty())
    return;
  const DataLayout &DL =
      Accesses.front().At->getFunction()->getParent()->getDataLayout();
  // Inner loops first: their ranges may be rows of an outer loop's.
  SmallVector<Loop *, 4> Loops = LI.getLoopsInPreorder();
  for (Loop *L : reverse(Loops)) {
    if (!L->getLoopPreheader() || hasBarrier(*L, E))
      continue;
    Hoister H(*L, DT, SE, TTI, DL);
    hoistFromLoop(*L, Accesses, H, SE, Counts);
  }
}
