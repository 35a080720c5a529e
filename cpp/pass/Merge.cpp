//===- Merge.cpp - One mark for several writes ----------------------------===//
//
// Three steps. Within a block, writes near each other, at constant distances,
// share a mark at the block's beginning, or behind the last barrier. A mark
// takes along those of later blocks that are certain to come, before any
// barrier (anticipated expressions). Then a mark is dropped where earlier ones
// cover it on every path: available expressions, where a barrier ends
// everything. The last step alone decides what is not marked, so a mistake in
// the second would mark too much, and lose nothing.
//
// What was marked in the last round of a loop needs no end of its own: an
// address that is computed anew there has a path from its computation to here
// in the first round, too, and is covered only if each such path marks.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/LoopInfo.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/Analysis/ScalarEvolutionExpressions.h"
#include "llvm/IR/CFG.h"
#include "llvm/IR/Dominators.h"
#include "llvm/IR/Module.h"

using namespace llvm;
using namespace perdure;

/// A mark of more bytes than this is a call, not a look at each card.
static constexpr int64_t GroupSizeMax = 256;

namespace {

struct Member {
  const Access *A;
  int64_t Low, High; // relative to the base
  bool IsLater = false; // taken along: also a member of a group behind this one
};

struct Group {
  const SCEV *Base;
  Instruction *At;
  Value *Pointer; // that of the first member, less Offset
  int64_t Offset;
  SmallVector<Member, 4> Members; // the first is where the mark is made
  int64_t Low, High;

  bool holds(int64_t L, int64_t H) const { return Low <= L && H <= High; }

  bool takes(int64_t L, int64_t H) const {
    return std::max(High, H) - std::min(Low, L) <= GroupSizeMax &&
           L - High < LineSize && Low - H < LineSize;
  }

  void add(const Member &M) {
    Members.push_back(M);
    Low = std::min(Low, M.Low);
    High = std::max(High, M.High);
  }
};

/// A group or a barrier of a block, in order.
struct Event {
  size_t Group;
  static constexpr size_t Barrier = ~size_t(0);
};

class Merger {
public:
  Merger(Function &F, ArrayRef<Access> Accesses, const Effects &E,
         const DominatorTree &DT, ScalarEvolution &SE)
      : F(F), E(E), DT(DT), SE(SE) {
    for (const Access &A : Accesses)
      if (A.Size)
        ByBlock[A.At->getParent()].push_back(&A);
    for (BasicBlock &B : F)
      group(B);
    for (size_t I = 0; I != Groups.size(); ++I)
      ByBase[Groups[I].Base].push_back(I);
    takeAlong();
    solve();
  }

  void emit(SmallVectorImpl<Mark> &Marks, Stats &Counts) {
    for (BasicBlock &B : F) {
      BitVector Known = atStart(B);
      for (const Event &Next : Events[&B]) {
        if (Next.Group == Event::Barrier) {
          Known.reset();
          continue;
        }
        emit(Groups[Next.Group], Known, Marks, Counts);
        Known.set(Next.Group);
      }
    }
  }

private:
  void group(BasicBlock &B) {
    SmallVector<const Access *, 8> &Here = ByBlock[&B];
    if (Here.empty() && !E.isBarrier(B))
      return;
    llvm::stable_sort(Here, [](const Access *X, const Access *Y) {
      return X->At != Y->At && X->At->comesBefore(Y->At);
    });
    auto &List = Events[&B];
    DenseMap<const SCEV *, size_t> Open;
    size_t Next = 0;
    Instruction *Earliest = firstPlace(B);
    for (Instruction &I : B) {
      for (; Next != Here.size() && Here[Next]->At == &I; ++Next)
        add(*Here[Next], Open, List, Earliest);
      if (E.isBarrier(I)) {
        Open.clear();
        List.push_back({Event::Barrier});
        Earliest = I.getNextNode();
      }
    }
  }

  /// Where a mark can be made at the earliest. Behind all allocas: what is
  /// split off the entry block has no place on the frame.
  static Instruction *firstPlace(BasicBlock &B) {
    Instruction *At = &*B.getFirstInsertionPt();
    if (B.isEntryBlock())
      for (Instruction &I : B)
        if (isa<AllocaInst>(I))
          At = I.getNextNode();
    return At;
  }

  /// As early as may be: what comes between the mark and the store then stays
  /// in one block, where the back end makes one instruction of a load and a
  /// store.
  Group open(const Access &A, const SCEV *Base, int64_t Low, int64_t High,
             Instruction *Earliest) const {
    const DataLayout &DL = F.getParent()->getDataLayout();
    APInt Offset(DL.getIndexTypeSizeInBits(A.Pointer->getType()), 0);
    Value *From = A.Pointer->stripAndAccumulateConstantOffsets(
        DL, Offset, /*AllowNonInbounds=*/true);
    if (From->getType() != A.Pointer->getType()) {
      From = A.Pointer; // of another address space
      Offset = 0;
    }
    auto *Made = dyn_cast<Instruction>(From);
    if (Made && Made->getParent() == A.At->getParent() && !isa<PHINode>(Made) &&
        !Made->comesBefore(Earliest))
      Earliest = Made->getNextNode();
    if (A.At->comesBefore(Earliest))
      Earliest = A.At;
    return {Base, Earliest, From, Offset.getSExtValue(), {{&A, Low, High}}, Low,
            High};
  }

  void add(const Access &A, DenseMap<const SCEV *, size_t> &Open,
           SmallVectorImpl<Event> &List, Instruction *Earliest) {
    auto [Base, Low] = splitConstant(A.Start, SE);
    int64_t High = Low + int64_t(A.Size);
    if (auto Found = Open.find(Base); Found != Open.end()) {
      Group &G = Groups[Found->second];
      if (G.takes(Low, High)) {
        G.add({&A, Low, High});
        return;
      }
    }
    Open[Base] = Groups.size();
    List.push_back({Groups.size()});
    Groups.push_back(open(A, Base, Low, High, Earliest));
  }

  //===--------------------------------------------------------------------===//
  // What is certain to come
  //===--------------------------------------------------------------------===//

  /// A range of a base that is written somewhere, and the blocks where.
  struct Range {
    const SCEV *Base;
    int64_t Low, High;
    const Access *A;
    SmallVector<const BasicBlock *, 2> Blocks;
  };

  /// Blocks in which an operand of a base gets its value: in front of it the
  /// base is another address.
  struct Origins {
    SmallPtrSet<const BasicBlock *, 2> Blocks;
    bool follow(const SCEV *S) {
      if (const auto *U = dyn_cast<SCEVUnknown>(S)) {
        if (const auto *I = dyn_cast<Instruction>(U->getValue()))
          Blocks.insert(I->getParent());
      } else if (const auto *R = dyn_cast<SCEVAddRecExpr>(S)) {
        Blocks.insert(R->getLoop()->getHeader());
      }
      return true;
    }
    bool isDone() const { return false; }
  };

  void takeAlong() {
    SmallVector<Range, 16> Ranges;
    DenseMap<const SCEV *, SmallVector<size_t, 4>> OfBase;
    for (auto &[Base, Numbers] : ByBase)
      if (Numbers.size() > 1)
        findRanges(Base, Numbers, Ranges, OfBase[Base]);
    if (Ranges.empty())
      return;
    // Per block: what its beginning is certain to be followed by.
    DenseMap<const BasicBlock *, BitVector> First, Unborn, Coming;
    for (auto &[Base, Numbers] : OfBase) {
      Origins From;
      visitAll(Base, From);
      for (const BasicBlock *B : From.Blocks)
        for (size_t I : Numbers)
          bitsOf(Unborn, B, Ranges.size()).set(I);
    }
    for (BasicBlock &B : F)
      for (const Event &Next : Events[&B]) {
        if (Next.Group == Event::Barrier)
          break;
        for (size_t I : OfBase.lookup(Groups[Next.Group].Base))
          if (is_contained(Ranges[I].Blocks, &B) &&
              Groups[Next.Group].holds(Ranges[I].Low, Ranges[I].High))
            bitsOf(First, &B, Ranges.size()).set(I);
      }
    ReversePostOrderTraversal<Function *> Order(&F);
    for (BasicBlock *B : Order)
      Coming.try_emplace(B, BitVector(Ranges.size(), true));
    auto Behind = [&](const BasicBlock *B) {
      BitVector All(Ranges.size(), succ_size(B) != 0);
      for (const BasicBlock *S : successors(B))
        All &= Coming.find(S)->second;
      return All;
    };
    for (bool Changed = true; Changed;) {
      Changed = false;
      for (BasicBlock *B : reverse(Order)) {
        BitVector Now = E.isBarrier(*B) ? BitVector(Ranges.size()) : Behind(B);
        if (auto Found = First.find(B); Found != First.end())
          Now |= Found->second;
        if (auto Found = Unborn.find(B); Found != Unborn.end())
          Now.reset(Found->second);
        BitVector &Old = Coming.find(B)->second;
        if (Now != Old) {
          Old = std::move(Now);
          Changed = true;
        }
      }
    }
    for (BasicBlock *B : Order) {
      BitVector Sure = Behind(B);
      if (Sure.none())
        continue;
      for (const Event &Next : reverse(Events[B])) {
        if (Next.Group == Event::Barrier)
          break;
        takeAlong(Groups[Next.Group], *B, Sure, Ranges, OfBase);
      }
    }
  }

  static BitVector &bitsOf(DenseMap<const BasicBlock *, BitVector> &Of,
                           const BasicBlock *B, size_t Size) {
    return Of.try_emplace(B, BitVector(Size)).first->second;
  }

  void findRanges(const SCEV *Base, ArrayRef<size_t> Numbers,
                  SmallVectorImpl<Range> &Ranges,
                  SmallVectorImpl<size_t> &Here) const {
    for (size_t Number : Numbers)
      for (const Member &M : Groups[Number].Members) {
        const BasicBlock *B = M.A->At->getParent();
        auto Same = find_if(Here, [&](size_t I) {
          return Ranges[I].Low == M.Low && Ranges[I].High == M.High;
        });
        if (Same == Here.end()) {
          Here.push_back(Ranges.size());
          Ranges.push_back({Base, M.Low, M.High, M.A, {B}});
        } else if (!is_contained(Ranges[*Same].Blocks, B)) {
          Ranges[*Same].Blocks.push_back(B);
        }
      }
  }

  /// Where G's block comes first on all ways to a range, its own mark is
  /// saved there.
  void takeAlong(Group &G, const BasicBlock &B, const BitVector &Sure,
                 ArrayRef<Range> Ranges,
                 const DenseMap<const SCEV *, SmallVector<size_t, 4>> &OfBase) {
    for (bool Changed = true; Changed;) {
      Changed = false;
      for (size_t I : OfBase.lookup(G.Base)) {
        const Range &R = Ranges[I];
        if (!Sure.test(I) || G.holds(R.Low, R.High) ||
            !G.takes(R.Low, R.High) ||
            none_of(R.Blocks, [&](const BasicBlock *Of) {
              return DT.properlyDominates(&B, Of);
            }))
          continue;
        G.add({R.A, R.Low, R.High, /*IsLater=*/true});
        Changed = true;
      }
    }
  }

  void solve() {
    ReversePostOrderTraversal<Function *> Order(&F);
    for (BasicBlock *B : Order)
      Out.try_emplace(B, BitVector(Groups.size(), true));
    for (bool Changed = true; Changed;) {
      Changed = false;
      for (BasicBlock *B : Order) {
        BitVector Known = atStart(*B);
        for (const Event &Next : Events[B])
          if (Next.Group == Event::Barrier)
            Known.reset();
          else
            Known.set(Next.Group);
        BitVector &Old = Out.find(B)->second;
        if (Known != Old) {
          Old = std::move(Known);
          Changed = true;
        }
      }
    }
  }

  BitVector atStart(const BasicBlock &B) const {
    BitVector Known(Groups.size(), !B.isEntryBlock());
    for (const BasicBlock *P : predecessors(&B))
      if (auto Found = Out.find(P); Found != Out.end())
        Known &= Found->second;
    return Known;
  }

  /// Whether [Low, High) of a base lies in lines that are marked.
  bool covered(const SCEV *Base, int64_t Low, int64_t High,
               const BitVector &Known) const {
    SmallVector<std::pair<int64_t, int64_t>, 4> Ranges;
    for (size_t I : ByBase.find(Base)->second)
      if (Known.test(I))
        Ranges.push_back({Groups[I].Low, Groups[I].High});
    llvm::sort(Ranges);
    for (size_t I = 0; I != Ranges.size();) {
      auto [From, To] = Ranges[I++];
      while (I != Ranges.size() && Ranges[I].first - To < LineSize)
        To = std::max(To, Ranges[I++].second);
      if (From <= Low && High <= To)
        return true;
    }
    return false;
  }

  void emit(const Group &G, const BitVector &Known,
            SmallVectorImpl<Mark> &Marks, Stats &Counts) {
    int64_t Low = INT64_MAX, High = INT64_MIN;
    const Member &First = G.Members.front();
    bool Counted = false;
    for (const Member &M : G.Members) {
      bool Drop = covered(G.Base, M.Low, M.High, Known);
      if (!Drop) {
        Low = std::min(Low, M.Low);
        High = std::max(High, M.High);
      }
      // Ranges in front of loops were counted when they were made.
      if (!M.A->IsRange && !M.IsLater)
        Counts.add(Drop      ? Count::Redundant
                   : Counted ? Count::Merged
                             : Count::Inline);
      Counted |= !Drop;
    }
    if (Low > High)
      return;
    Align Best(1);
    for (const Member &M : G.Members)
      Best = std::max(Best, commonAlignment(M.A->Alignment, M.Low - Low));
    Marks.push_back({G.At, G.Pointer, G.Offset + Low - First.Low,
                     uint64_t(High - Low), nullptr, Best});
  }

  Function &F;
  const Effects &E;
  const DominatorTree &DT;
  ScalarEvolution &SE;
  DenseMap<const BasicBlock *, SmallVector<const Access *, 8>> ByBlock;
  DenseMap<const BasicBlock *, SmallVector<Event, 8>> Events;
  SmallVector<Group, 16> Groups;
  DenseMap<const SCEV *, SmallVector<size_t, 4>> ByBase;
  DenseMap<const BasicBlock *, BitVector> Out;
};

} // namespace

SmallVector<Mark, 16> perdure::mergeMarks(Function &F,
                                          ArrayRef<Access> Accesses,
                                          const Effects &E,
                                          const DominatorTree &DT,
                                          ScalarEvolution &SE, Stats &Counts) {
  SmallVector<Mark, 16> Marks;
  for (const Access &A : Accesses)
    if (!A.Size) {
      if (!A.IsRange)
        Counts.add(Count::Inline);
      Marks.push_back({A.At, A.Pointer, 0, 0, A.LengthValue, A.Alignment});
    }
  Merger(F, Accesses, E, DT, SE).emit(Marks, Counts);
  return Marks;
}
