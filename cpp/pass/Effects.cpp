//===- Effects.cpp - What each instruction writes -------------------------===//

#include "Effects.h"
#include "Provenance.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/IntrinsicsX86.h"
#include "llvm/IR/Module.h"

using namespace llvm;
using namespace perdure;

static const KnownFunction Harmless{"", KnownFunction::Quiet};

static bool synchronises(AtomicOrdering O) {
  return isStrongerThanMonotonic(O);
}

Function *perdure::calledFunction(const CallBase &Call) {
  Value *Callee = Call.getCalledOperand()->stripPointerCasts();
  while (auto *A = dyn_cast<GlobalAlias>(Callee)) {
    if (A->isInterposable())
      return nullptr;
    Callee = A->getAliasee()->stripPointerCasts();
  }
  return dyn_cast<Function>(Callee);
}

Effects::Effects(Function &F, const TargetLibraryInfo &TLI,
                 const ModuleFacts &Facts, Stats &Counts)
    : DL(F.getParent()->getDataLayout()), TLI(TLI), Facts(Facts),
      Counts(Counts) {
  for (Instruction &I : instructions(F)) {
    if (auto *Call = dyn_cast<CallBase>(&I)) {
      visitCall(*Call);
    } else if (auto *S = dyn_cast<StoreInst>(&I)) {
      write(I, S->getPointerOperand(),
            DL.getTypeStoreSize(S->getValueOperand()->getType()),
            S->getAlign());
      if (S->isVolatile() || synchronises(S->getOrdering()))
        barrier(I);
    } else if (auto *R = dyn_cast<AtomicRMWInst>(&I)) {
      write(I, R->getPointerOperand(),
            DL.getTypeStoreSize(R->getValOperand()->getType()), R->getAlign());
      if (R->isVolatile() || synchronises(R->getOrdering()))
        barrier(I);
    } else if (auto *X = dyn_cast<AtomicCmpXchgInst>(&I)) {
      write(I, X->getPointerOperand(),
            DL.getTypeStoreSize(X->getNewValOperand()->getType()),
            X->getAlign());
      if (X->isVolatile() || synchronises(X->getMergedOrdering()))
        barrier(I);
    } else if (auto *L = dyn_cast<LoadInst>(&I)) {
      if (L->isVolatile() || synchronises(L->getOrdering()))
        barrier(I);
    } else if (isa<FenceInst>(I)) {
      barrier(I);
    } else if (auto *V = dyn_cast<VAArgInst>(&I)) {
      write(I, V->getPointerOperand(), 24, Align(8));
    } else if (I.mayWriteToMemory()) {
      // Pads of funclets, which this target does not have.
      barrier(I);
    }
  }
}

void Effects::barrier(const Instruction &I) {
  Barriers.insert(&I);
  BarrierBlocks.insert(I.getParent());
}

bool Effects::skip(const Value *Pointer) {
  std::optional<Foreign> Why = foreign(Pointer);
  if (!Why)
    return false;
  switch (*Why) {
  case Foreign::Stack:
    Counts.add(Count::Stack);
    break;
  case Foreign::Global:
    Counts.add(Count::Global);
    break;
  case Foreign::Fresh:
    Counts.add(Count::Fresh);
    break;
  case Foreign::Segment:
    Counts.add(Count::Segment);
    break;
  }
  return true;
}

void Effects::write(Instruction &At, Value *Pointer, uint64_t Size,
                    Align Alignment, Value *Length) {
  if (auto *Constant = dyn_cast_or_null<ConstantInt>(Length)) {
    Size = Constant->getLimitedValue();
    Length = nullptr;
  }
  if (!Length && Size == 0)
    return;
  Counts.add(Count::Seen);
  if (!skip(Pointer))
    Writes.push_back({&At, Pointer, Size, Length, Alignment});
}

void Effects::lanes(LaneWrite W) {
  Counts.add(Count::Seen);
  if (W.Kind != LaneWrite::Scattered && skip(W.Pointer))
    return;
  Counts.add(Count::Inline);
  LaneWrites.push_back(W);
}

// Assembly that stores nothing, though it says that it clobbers memory:
// barriers for the compiler or the processor.
static bool storesNothing(StringRef Template) {
  return StringSwitch<bool>(Template.trim(" \t\n;"))
      .Cases("", "nop", "pause", "rep; nop", "rep;nop", true)
      .Cases("mfence", "sfence", "lfence", "yield", "serialize", true)
      .Default(false);
}

void Effects::visitAssembly(CallBase &Call) {
  const auto &Asm = *cast<InlineAsm>(Call.getCalledOperand());
  bool ClobbersMemory = false;
  unsigned Argument = 0;
  for (const InlineAsm::ConstraintInfo &C : Asm.ParseConstraints()) {
    if (C.Type == InlineAsm::isClobber) {
      ClobbersMemory |= is_contained(C.Codes, "{memory}");
      continue;
    }
    if (C.Type == InlineAsm::isLabel)
      continue;
    if (!C.hasArg())
      continue;
    if (C.Type == InlineAsm::isOutput && C.isIndirect)
      write(Call, Call.getArgOperand(Argument),
            DL.getTypeStoreSize(Call.getParamElementType(Argument)), Align(1));
    ++Argument;
  }
  if (Asm.hasSideEffects() || ClobbersMemory)
    barrier(Call);
  if (ClobbersMemory && !storesNothing(Asm.getAsmString())) {
    Counts.add(Count::CallsUnseen);
    Calls.push_back({Callee::Opaque, &Call});
  }
}

// Whether a call that may write through its arguments only cannot write
// anything that matters.
static bool hasForeignArgumentsOnly(const CallBase &Call) {
  for (unsigned I = 0; I != Call.arg_size(); ++I) {
    const Value *Argument = Call.getArgOperand(I);
    if (!Argument->getType()->isPtrOrPtrVectorTy() || Call.onlyReadsMemory(I))
      continue;
    if (!Argument->getType()->isPointerTy() || !foreign(Argument))
      return false;
  }
  return true;
}

// Whether a format writes through an argument: "%n" in one of its forms. A
// format that is not a constant is taken to be an honest one.
static bool formatWrites(const CallBase &Call, StringRef Name) {
  if (!Name.contains("printf"))
    return false;
  for (const Use &Argument : Call.args()) {
    StringRef Format;
    if (!Argument->getType()->isPointerTy() ||
        !getConstantStringInfo(Argument, Format))
      continue;
    for (size_t At = Format.find('%'); At != StringRef::npos;
         At = Format.find('%', At + 1)) {
      size_t End = Format.find_first_not_of("%0123456789$#+- '.*hljztLq", At);
      if (End != StringRef::npos && Format[End] == 'n')
        return true;
      if (End == StringRef::npos)
        break;
    }
  }
  return false;
}

void Effects::visitCall(CallBase &Call) {
  if (auto *I = dyn_cast<IntrinsicInst>(&Call))
    return visitIntrinsic(*I);
  if (Call.isInlineAsm())
    return visitAssembly(Call);

  MemoryEffects Memory = Call.getMemoryEffects();
  if (Memory.onlyReadsMemory() || Memory.onlyAccessesInaccessibleMem()) {
    Counts.add(Count::CallsHarmless);
    return;
  }

  Function *F = calledFunction(Call);
  if (F && Facts.Ignored.contains(F)) {
    Counts.add(Count::CallsUnseen);
    barrier(Call);
    Calls.push_back({Callee::Opaque, &Call});
    return;
  }
  if (F && !F->isDeclaration() &&
      (F->hasLocalLinkage() || (F->isDefinitionExact() && F->isDSOLocal()))) {
    Counts.add(Count::CallsSeen);
    if (!Facts.Quiet.contains(F))
      barrier(Call);
    return;
  }
  if (!F) {
    Counts.add(Count::CallsIndirect);
    barrier(Call);
    Calls.push_back({Callee::Indirect, &Call});
    return;
  }

  const KnownFunction *Row = nullptr;
  if (F->isDeclaration()) {
    Row = KnownFunction::find(F->getName());
    LibFunc Func;
    if (!Row && TLI.getLibFunc(*F, Func) &&
        none_of(Call.args(), [](const Use &A) {
          return A->getType()->isPtrOrPtrVectorTy();
        }))
      Row = &Harmless; // mathematics: errno at most
    if (Row && (!Row->fits(Call) || formatWrites(Call, F->getName())))
      Row = nullptr;
  }
  if (!Row && Memory.onlyAccessesInaccessibleOrArgMem() &&
      hasForeignArgumentsOnly(Call)) {
    Counts.add(Count::CallsHarmless);
    barrier(Call);
    return;
  }
  if (!Row) {
    Counts.add(Count::CallsRunTime);
    barrier(Call);
    Calls.push_back({Callee::Direct, &Call});
    return;
  }

  if (!(Row->Flags & KnownFunction::Quiet))
    barrier(Call);
  bool Listed = false;
  for (unsigned I = 0; I != Row->Count; ++I) {
    const WriteRule &R = Row->Writes[I];
    Value *Pointer = Call.getArgOperand(R.Pointer);
    if (R.Moment != When::After && R.Size == Extent::Bytes) {
      write(Call, Pointer, R.K, Align(1));
    } else if (R.Moment != When::After && R.Size == Extent::Argument) {
      write(Call, Pointer, 0, Align(1), Call.getArgOperand(R.A));
    } else {
      Counts.add(Count::Seen);
      if (skip(Pointer))
        continue;
      Counts.add(Count::Inline);
    }
    Listed |= !foreign(Pointer);
  }
  if (Row->Flags & (KnownFunction::Arguments | KnownFunction::Retains))
    Listed |= !hasForeignArgumentsOnly(Call);
  if (!Listed && !(Row->Flags & KnownFunction::Retains)) {
    Counts.add(Count::CallsHarmless);
    return;
  }
  Counts.add(Count::CallsMarked);
  Calls.push_back({Callee::Known, &Call, Row});
}

void Effects::visitIntrinsic(IntrinsicInst &I) {
  if (auto *M = dyn_cast<AnyMemIntrinsic>(&I)) {
    write(I, M->getRawDest(), 0, M->getDestAlign().valueOrOne(),
          M->getLength());
    if (auto *Plain = dyn_cast<MemIntrinsic>(M))
      if (Plain->isVolatile())
        barrier(I);
    return;
  }

  auto Vector = [&](unsigned ValueArgument) {
    return cast<FixedVectorType>(I.getArgOperand(ValueArgument)->getType());
  };
  auto Lanes = [&](LaneWrite::Shape Kind, unsigned Pointer, unsigned Mask,
                   Value *Count) {
    FixedVectorType *T = Vector(0);
    lanes({Kind, &I, I.getArgOperand(Pointer), I.getArgOperand(Mask), Count,
           T->getNumElements(), DL.getTypeStoreSize(T->getElementType())});
  };
  switch (I.getIntrinsicID()) {
  case Intrinsic::masked_store:
    return Lanes(LaneWrite::Contiguous, 1, 3, nullptr);
  case Intrinsic::masked_scatter:
    return Lanes(LaneWrite::Scattered, 1, 3, nullptr);
  case Intrinsic::masked_compressstore:
    return Lanes(LaneWrite::Compressed, 1, 2, nullptr);
  case Intrinsic::vp_store:
    return Lanes(LaneWrite::Contiguous, 1, 2, I.getArgOperand(3));
  case Intrinsic::vp_scatter:
    return Lanes(LaneWrite::Scattered, 1, 2, I.getArgOperand(3));
  case Intrinsic::vastart:
  case Intrinsic::vacopy:
    return write(I, I.getArgOperand(0), 24, Align(8));
  case Intrinsic::init_trampoline:
    return write(I, I.getArgOperand(0), 32, Align(1));
  case Intrinsic::eh_sjlj_setjmp:
    write(I, I.getArgOperand(0), 40, Align(1));
    return barrier(I);
  case Intrinsic::eh_sjlj_longjmp:
  case Intrinsic::trap:
  case Intrinsic::debugtrap:
  case Intrinsic::ubsantrap:
  case Intrinsic::clear_cache:
    return barrier(I);
  case Intrinsic::vaend:
  case Intrinsic::prefetch:
  case Intrinsic::stacksave:
  case Intrinsic::stackrestore:
  case Intrinsic::lifetime_start:
  case Intrinsic::lifetime_end:
  case Intrinsic::invariant_start:
  case Intrinsic::invariant_end:
  case Intrinsic::donothing:
  case Intrinsic::localescape:
  case Intrinsic::eh_unwind_init:
  case Intrinsic::eh_return_i32:
  case Intrinsic::eh_return_i64:
  case Intrinsic::eh_sjlj_lsda:
  case Intrinsic::eh_sjlj_callsite:
  case Intrinsic::eh_sjlj_functioncontext:
  case Intrinsic::write_register:
  case Intrinsic::read_volatile_register:
  // Counters of profiles and coverage: globals.
  case Intrinsic::instrprof_increment:
  case Intrinsic::instrprof_increment_step:
  case Intrinsic::instrprof_value_profile:
  case Intrinsic::instrprof_cover:
    return;
  default:
    break;
  }
  MemoryEffects Memory = I.getMemoryEffects();
  if (I.isAssumeLikeIntrinsic() || Memory.onlyReadsMemory() ||
      Memory.onlyAccessesInaccessibleMem())
    return;
  barrier(I);
  if (visitTargetIntrinsic(I))
    return;
  if (Memory.onlyAccessesInaccessibleOrArgMem() && hasForeignArgumentsOnly(I))
    return;
  Counts.add(Count::CallsUnseen);
  Calls.push_back({Callee::Opaque, &I});
}

// Instructions of the processor that store. True if they are dealt with.
bool Effects::visitTargetIntrinsic(IntrinsicInst &I) {
  auto Write = [&](unsigned Argument, uint64_t Size) {
    write(I, I.getArgOperand(Argument), Size, Align(1));
    return true;
  };
  auto Masked = [&](unsigned Data, unsigned Pointer, unsigned Mask) {
    auto *T = cast<FixedVectorType>(I.getArgOperand(Data)->getType());
    lanes({LaneWrite::Contiguous, &I, I.getArgOperand(Pointer),
           I.getArgOperand(Mask), nullptr, T->getNumElements(),
           DL.getTypeStoreSize(T->getElementType())});
    return true;
  };
  switch (I.getIntrinsicID()) {
  case Intrinsic::x86_sse2_maskmov_dqu:
    return Masked(0, 2, 1);
  case Intrinsic::x86_avx_maskstore_pd:
  case Intrinsic::x86_avx_maskstore_pd_256:
  case Intrinsic::x86_avx_maskstore_ps:
  case Intrinsic::x86_avx_maskstore_ps_256:
  case Intrinsic::x86_avx2_maskstore_d:
  case Intrinsic::x86_avx2_maskstore_d_256:
  case Intrinsic::x86_avx2_maskstore_q:
  case Intrinsic::x86_avx2_maskstore_q_256:
    return Masked(2, 0, 1);
  case Intrinsic::x86_sse_stmxcsr:
    return Write(0, 4);
  case Intrinsic::x86_mmx_movnt_dq:
    return Write(0, 8);
  case Intrinsic::x86_fxsave:
  case Intrinsic::x86_fxsave64:
    return Write(0, 512);
  case Intrinsic::x86_directstore32:
  case Intrinsic::x86_aadd32:
  case Intrinsic::x86_aand32:
  case Intrinsic::x86_aor32:
  case Intrinsic::x86_axor32:
  case Intrinsic::x86_cmpccxadd32:
    return Write(0, 4);
  case Intrinsic::x86_directstore64:
  case Intrinsic::x86_aadd64:
  case Intrinsic::x86_aand64:
  case Intrinsic::x86_aor64:
  case Intrinsic::x86_axor64:
  case Intrinsic::x86_cmpccxadd64:
    return Write(0, 8);
  case Intrinsic::x86_atomic_add_cc:
  case Intrinsic::x86_atomic_sub_cc:
  case Intrinsic::x86_atomic_and_cc:
  case Intrinsic::x86_atomic_or_cc:
  case Intrinsic::x86_atomic_xor_cc:
  case Intrinsic::x86_atomic_bts:
  case Intrinsic::x86_atomic_btr:
  case Intrinsic::x86_atomic_btc:
  case Intrinsic::x86_atomic_bts_rm:
  case Intrinsic::x86_atomic_btr_rm:
  case Intrinsic::x86_atomic_btc_rm:
    return Write(0, 8);
  case Intrinsic::x86_movdir64b:
    return Write(0, 64);
  case Intrinsic::x86_clzero: // the line that the address is in
    return Write(0, 1);
  case Intrinsic::x86_sse2_clflush:
  case Intrinsic::x86_clflushopt:
  case Intrinsic::x86_clwb:
  case Intrinsic::x86_cldemote:
    return true;
  default:
    break;
  }
  // Registers of the processor; whatever has no pointer stores nowhere.
  return I.getCalledFunction()->getName().starts_with("llvm.x86.") &&
         none_of(I.args(), [](const Use &A) {
           return A->getType()->isPtrOrPtrVectorTy();
         });
}
