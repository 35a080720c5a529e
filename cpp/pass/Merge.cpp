//===- Merge.cpp - One mark for several writes ----------------------------===//
//
// Two steps. Within a block, writes near each other, at constant distances,
// share a mark in front of the first. Then a mark is dropped where earlier ones
// cover it on every path: available expressions, where a barrier ends
// everything. What was marked in the last round of a loop needs no end of its
// own: an address that is computed anew there has a path from its computation
// to here in the first round, too, and is covered only if each such path marks.
//
//===----------------------------------------------------------------------===//

#include "Plan.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/PostOrderIterator.h"
#include "llvm/Analysis/ScalarEvolution.h"
#include "llvm/IR/CFG.h"

using namespace llvm;
using namespace perdure;

/// A mark of more bytes than this is a call, not a look at each card.
static constexpr int64_t GroupSizeMax = 256;

namespace {

struct Member {
  const Access *A;
  int64_t Low, High; // relative to the base
};

struct Group {
  const SCEV *Base;
  SmallVector<Member, 4> Members; // the first is where the mark is made
  int64_t Low, High;

  bool takes(int64_t L, int64_t H) const {
    return std::max(High, H) - std::min(Low, L) <= GroupSizeMax &&
           L - High < LineSize && Low - H < LineSize;
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
         ScalarEvolution &SE)
      : F(F), E(E), SE(SE) {
    for (const Access &A : Accesses)
      if (A.Size)
        ByBlock[A.At->getParent()].push_back(&A);
    for (BasicBlock &B : F)
      group(B);
    for (size_t I = 0; I != Groups.size(); ++I)
      ByBase[Groups[I].Base].push_back(I);
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
    for (Instruction &I : B) {
      for (; Next != Here.size() && Here[Next]->At == &I; ++Next)
        add(*Here[Next], Open, List);
      if (E.isBarrier(I)) {
        Open.clear();
        List.push_back({Event::Barrier});
      }
    }
  }

  void add(const Access &A, DenseMap<const SCEV *, size_t> &Open,
           SmallVectorImpl<Event> &List) {
    auto [Base, Low] = splitConstant(A.Start, SE);
    int64_t High = Low + int64_t(A.Size);
    if (auto Found = Open.find(Base); Found != Open.end()) {
      Group &G = Groups[Found->second];
      if (G.takes(Low, High)) {
        G.Members.push_back({&A, Low, High});
        G.Low = std::min(G.Low, Low);
        G.High = std::max(G.High, High);
        return;
      }
    }
    Open[Base] = Groups.size();
    List.push_back({Groups.size()});
    Groups.push_back({Base, {{&A, Low, High}}, Low, High});
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
      if (!M.A->IsRange)
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
    Marks.push_back({First.A->At, First.A->Pointer, Low - First.Low,
                     uint64_t(High - Low), nullptr, Best});
  }

  Function &F;
  const Effects &E;
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
                                          ScalarEvolution &SE, Stats &Counts) {
  SmallVector<Mark, 16> Marks;
  for (const Access &A : Accesses)
    if (!A.Size) {
      if (!A.IsRange)
        Counts.add(Count::Inline);
      Marks.push_back({A.At, A.Pointer, 0, 0, A.LengthValue, A.Alignment});
    }
  Merger(F, Accesses, E, SE).emit(Marks, Counts);
  return Marks;
}
