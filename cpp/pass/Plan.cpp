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

/// The one value, known at a place, that a pointer goes back to by steps within
/// its object: offsets, and values that come around in loops.
static Value *rootOf(Value *Pointer, const Instruction *Known,
                     DominatorTree &DT) {
  Value *Root = nullptr;
  SmallPtrSet<Value *, 8> Seen;
  SmallVector<Value *, 8> Todo{Pointer};
  while (!Todo.empty()) {
    Value *V = Todo.pop_back_val();
    if (!Seen.insert(V).second)
      continue;
    if (Seen.size() > 16 || isa<Constant>(V))
      return nullptr;
    if (DT.dominates(V, Known)) {
      if (Root && Root != V)
        return nullptr;
      Root = V;
    } else if (auto *G = dyn_cast<GetElementPtrInst>(V)) {
      Todo.push_back(G->getPointerOperand());
    } else if (auto *P = dyn_cast<PHINode>(V)) {
      append_range(Todo, P->incoming_values());
    } else if (auto *S = dyn_cast<SelectInst>(V)) {
      Todo.push_back(S->getTrueValue());
      Todo.push_back(S->getFalseValue());
    } else {
      return nullptr;
    }
  }
  return Root;
}

/// An object lies in the arena or outside, never across its border, so that
/// any pointer into it tells for all. If one is known in front of a loop, the
/// question is asked there.
static void askInFront(Mark &M, LoopInfo &LI, DominatorTree &DT) {
  for (Loop *L = LI.getLoopFor(M.At->getParent()); L; L = L->getParentLoop()) {
    BasicBlock *Front = L->getLoopPreheader();
    if (!Front)
      return;
    Value *Root = rootOf(M.Pointer, Front->getTerminator(), DT);
    if (!Root || Root->getType() != M.Pointer->getType())
      return;
    M.Object = Root;
    M.AskAt = Front->getTerminator();
  }
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
  SmallVector<Mark, 16> Marks = mergeMarks(F, Accesses, E, SE, Counts);
  for (Mark &M : Marks)
    askInFront(M, LI, DT);
  return Marks;
}
