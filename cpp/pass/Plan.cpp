//===- Plan.cpp - Which marks to make, and where --------------------------===//

#include "Plan.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/Analysis/TargetTransformInfo.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/ScalarEvolutionExpander.h"

using namespace llvm;
using namespace perdure;

/// Beyond this the bookkeeping of one function would cost more than checks.
static constexpr size_t AccessesMax = 4000;

std::pair<const SCEV *, int64_t>
perdure::splitConstant(const SCEV *S, ScalarEvolution &SE) {
  if (const auto *Sum = dyn_cast<SCEVAddExpr>(S)) {
    if (const auto *C = dyn_cast<SCEVConstant>(Sum->getOperand(0));
        C && C->getAPInt().getSignificantBits() <= 48) {
      SmallVector<const SCEV *, 4> Rest(drop_begin(Sum->operands()));
      return {SE.getAddExpr(Rest), C->getAPInt().getSExtValue()};
    }
  } else if (const auto *R = dyn_cast<SCEVAddRecExpr>(S); R && R->isAffine()) {
    auto [Start, Offset] = splitConstant(R->getStart(), SE);
    if (Offset)
      return {SE.getAddRecExpr(Start, R->getStepRecurrence(SE), R->getLoop(),
                               SCEV::FlagAnyWrap),
              Offset};
  }
  return {S, 0};
}

static SmallVector<Mark, 16> planWithoutAnalysis(const Effects &E,
                                                 Stats &Counts) {
  SmallVector<Mark, 16> Marks;
  for (const Write &W : E.Writes) {
    Counts.add(Count::Inline);
    Marks.push_back({W.At, W.Pointer, 0, W.Size, W.Length, W.Alignment});
  }
  return Marks;
}

SmallVector<Mark, 16> perdure::plan(Function &F, const Effects &E,
                                    FunctionAnalysisManager &FAM,
                                    Stats &Counts) {
  if (E.Writes.empty())
    return {};
  if (F.hasOptNone() || E.Writes.size() > AccessesMax)
    return planWithoutAnalysis(E, Counts);

  if (preparePreheaders(E, FAM.getResult<LoopAnalysis>(F),
                        FAM.getResult<DominatorTreeAnalysis>(F)))
    FAM.invalidate(F, PreservedAnalyses::none());
  auto &LI = FAM.getResult<LoopAnalysis>(F);
  auto &DT = FAM.getResult<DominatorTreeAnalysis>(F);
  auto &SE = FAM.getResult<ScalarEvolutionAnalysis>(F);
  auto &TTI = FAM.getResult<TargetIRAnalysis>(F);

  Type *Word = Type::getInt64Ty(F.getContext());
  SmallVector<Access, 16> Accesses;
  for (const Write &W : E.Writes) {
    if (!DT.isReachableFromEntry(W.At->getParent()))
      continue;
    const SCEV *Length = nullptr;
    if (W.Length && W.Length->getType()->isIntegerTy(64))
      Length = SE.getTruncateOrZeroExtend(SE.getSCEV(W.Length), Word);
    Accesses.push_back({W.At, W.Pointer, SE.getSCEV(W.Pointer), W.Size, Length,
                        W.Length, W.Alignment, /*IsRange=*/false});
  }
  hoistFromLoops(Accesses, E, LI, DT, SE, TTI, Counts);

  SCEVExpander Expander(SE, F.getParent()->getDataLayout(), "perdure");
  for (Access &A : Accesses) {
    if (A.Pointer)
      continue;
    Counts.add(Count::Ranges);
    A.Pointer = Expander.expandCodeFor(A.Start, A.Start->getType(), A.At);
    if (!A.Size)
      A.LengthValue = Expander.expandCodeFor(A.Length, Word, A.At);
  }
  return mergeMarks(F, Accesses, E, DT, SE, Counts);
}
