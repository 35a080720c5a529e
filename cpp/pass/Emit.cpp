//===- Emit.cpp - The code of marks ---------------------------------------===//

#include "Emit.h"
#include "abi.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/InlineAsm.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"

using namespace llvm;
using namespace perdure;

/// Ranges up to this size are looked at card by card.
static constexpr uint64_t LookedAtMax = 256;

Builder::Builder(Instruction *At) : IRBuilder<>(At) {
  if (!getCurrentDebugLocation())
    if (DISubprogram *P = At->getFunction()->getSubprogram())
      SetCurrentDebugLocation(DILocation::get(At->getContext(), 0, 0, P));
}

Emitter::Emitter(Module &M)
    : M(M), Byte(Type::getInt8Ty(M.getContext())),
      Word(Type::getInt64Ty(M.getContext())),
      Pointer(PointerType::getUnqual(M.getContext())) {
  Unseen = M.getOrInsertGlobal("__perdure_unseen", Byte);
  bool ForTsan = any_of(M, [](const Function &F) {
    return F.hasFnAttribute(Attribute::SanitizeThread);
  });
  ArenaShift = ForTsan ? PERDURE_TSAN_ARENA_SHIFT : PERDURE_ARENA_SHIFT;
  CardBias = ForTsan ? PERDURE_TSAN_CARD_BIAS : PERDURE_CARD_BIAS;
  UnseenCalls = M.getOrInsertGlobal("__perdure_unseen_calls", Word);
}

Function *Emitter::outOfLine(StringRef Name, ArrayRef<Type *> Parameters,
                             Body Make) {
  if (Function *There = M.getFunction(Name))
    return There;
  LLVMContext &C = M.getContext();
  auto *F = Function::Create(
      FunctionType::get(Type::getVoidTy(C), Parameters, false),
      GlobalValue::LinkOnceODRLinkage, Name, M);
  F->setVisibility(GlobalValue::HiddenVisibility);
  F->setComdat(M.getOrInsertComdat(Name));
  F->setDSOLocal(true);
  F->setCallingConv(CallingConv::PreserveMost);
  F->addFnAttr(Attribute::NoUnwind);
  F->addFnAttr(Attribute::Cold);
  F->addFnAttr("perdure-instrumented");
  F->setUWTableKind(UWTableKind::Default);
  IRBuilder<> B(BasicBlock::Create(C, "", F));
  Make(B, *F);
  B.CreateRetVoid();
  return F;
}

/// The runtime's function of the same type, in tail position.
static void goOn(IRBuilder<> &B, Function &F, StringRef Name) {
  Module &M = *F.getParent();
  FunctionCallee To = M.getOrInsertFunction(Name, F.getFunctionType());
  auto *Declared = cast<Function>(To.getCallee());
  Declared->setCallingConv(CallingConv::PreserveMost);
  // The resolver of lazy binding would not keep r10.
  Declared->addFnAttr(Attribute::NonLazyBind);
  Declared->addFnAttr(Attribute::NoUnwind);
  SmallVector<Value *, 2> Arguments;
  for (Argument &A : F.args())
    Arguments.push_back(&A);
  CallInst *Call = B.CreateCall(To, Arguments);
  Call->setCallingConv(CallingConv::PreserveMost);
  Call->setTailCallKind(CallInst::TCK_MustTail);
}

void Emitter::callOutOfLine(Builder &B, Function *F,
                            ArrayRef<Value *> Arguments) {
  Type *Nothing = Type::getVoidTy(M.getContext());
  SmallVector<Type *, 3> Types{Pointer};
  SmallVector<Value *, 3> Operands{F};
  std::string Constraints = "i";
  static constexpr const char *Registers[] = {",{rdi}", ",{rsi}"};
  for (auto [Number, A] : enumerate(Arguments)) {
    Types.push_back(A->getType());
    Operands.push_back(A);
    Constraints += Registers[Number];
  }
  Constraints += ",~{r11}";
  for (unsigned I = 0; I != 32; ++I)
    Constraints += ",~{xmm" + std::to_string(I) + "}";
  for (unsigned I = 0; I != 8; ++I)
    Constraints += ",~{k" + std::to_string(I) + "}";
  Constraints += ",~{memory},~{dirflag},~{fpsr},~{flags}";
  B.CreateCall(InlineAsm::get(FunctionType::get(Nothing, Types, false),
                              "call ${0:P}", Constraints,
                              /*hasSideEffects=*/true),
               Operands);
  // What the call pushes must not be a leaf function's own.
  B.GetInsertBlock()->getParent()->addFnAttr(Attribute::NoRedZone);
}

Value *Emitter::inArena(Builder &B, Value *Address) {
  Type *T = Address->getType();
  return B.CreateICmpEQ(
      B.CreateLShr(Address, ConstantInt::get(T, ArenaShift)),
      ConstantInt::get(T, PERDURE_ARENA));
}

Instruction *Emitter::when(Value *Condition, Instruction *At, bool Unlikely) {
  Instruction *Branch = SplitBlockAndInsertIfThen(
      Condition, At->getIterator(), /*Unreachable=*/false,
      Unlikely ? MDBuilder(M.getContext()).createUnlikelyBranchWeights()
               : nullptr);
  Branch->setDebugLoc(Builder(At).getCurrentDebugLocation());
  return Branch;
}

void Emitter::callMark(Builder &B, Value *Start, Value *Length) {
  Function *F = outOfLine("perdure.mark", {Pointer, Word},
                          [](IRBuilder<> &To, Function &From) {
                            goOn(To, From, "__perdure_mark");
                          });
  callOutOfLine(B, F, {Start, Length});
}

void Emitter::callMarkLines(Builder &B, Value *First, Value *Last) {
  Function *F = outOfLine("perdure.mark_lines", {Word, Word},
                          [](IRBuilder<> &To, Function &From) {
                            goOn(To, From, "__perdure_mark_lines");
                          });
  callOutOfLine(B, F, {First, Last});
}

Value *Emitter::line(Builder &B, Value *Address, uint64_t Offset) {
  Value *Of = Offset ? B.CreateAdd(Address, B.getInt64(Offset)) : Address;
  return B.CreateLShr(Of, PERDURE_CARD_SHIFT);
}

Value *Emitter::card(Builder &B, Value *Line) {
  Value *At = B.CreateIntToPtr(
      B.CreateAdd(Line, B.getInt64(CardBias)), Pointer);
  // Plain, so that the comparison can read it in memory. Who sets the card at
  // the same time, or clears it, does so where this load may not be moved to.
  LoadInst *Card = B.CreateAlignedLoad(Byte, At, Align(1));
  // Cards are no memory of the program's: sanitizers leave them alone.
  Card->setMetadata(LLVMContext::MD_nosanitize,
                    MDNode::get(M.getContext(), {}));
  return Card;
}

void Emitter::markCards(Instruction *At, Value *Address, uint64_t Size,
                        Align Alignment) {
  Builder B(At);
  Value *First = line(B, Address, 0), *Last = First;
  // Cards are 0 or 1, so that the AND of several tells of all.
  Value *Set = card(B, First);
  bool OneLine = Size <= std::min<uint64_t>(Alignment.value(), LineSize);
  if (!OneLine) {
    for (uint64_t Offset = LineSize; Offset < Size - 1; Offset += LineSize)
      Set = B.CreateAnd(Set, card(B, line(B, Address, Offset)));
    if (Size > 1) {
      Last = line(B, Address, Size - 1);
      Set = B.CreateAnd(Set, card(B, Last));
    }
  }
  Instruction *Then =
      when(B.CreateICmpEQ(Set, B.getInt8(0)), At, /*Unlikely=*/true);
  // Told by lines, as they are in registers here: the address is not, where the
  // store computes its own.
  Builder Cold(Then);
  callMarkLines(Cold, First, Last);
}

void Emitter::mark(const Mark &Next) {
  Builder B(Next.At);
  Value *Start = Next.Pointer;
  if (Start->getType() != Pointer)
    Start = B.CreateAddrSpaceCast(Start, Pointer);
  if (Next.Delta)
    Start = B.CreateConstGEP1_64(Byte, Start, Next.Delta);
  if (Next.Length)
    return markRange(Next.At, Start, B.CreateZExtOrTrunc(Next.Length, Word));
  if (Next.Size > LookedAtMax)
    return markRange(Next.At, Start, B.getInt64(Next.Size));
  markCards(Next.At, B.CreatePtrToInt(Start, Word), Next.Size, Next.Alignment);
}

void Emitter::markRange(Instruction *At, Value *Start, Value *Length) {
  Builder B(At);
  Value *Address = B.CreatePtrToInt(Start, Word);
  Instruction *InArena = when(inArena(B, Address), At, /*Unlikely=*/false);
  Builder C(InArena);
  if (isa<ConstantInt>(Length))
    return callMark(C, Start, Length);
  // Up to a line: two cards tell. Otherwise the call does, unless there is
  // nothing: programs copy nothing quite often.
  Value *Last = C.CreateSub(Length, C.getInt64(1));
  Value *Short = C.CreateICmpULT(Last, C.getInt64(LineSize));
  Instruction *Look = when(Short, InArena, /*Unlikely=*/false);
  Builder D(Look);
  Value *End = D.CreateAdd(Address, Last);
  Value *Clean = D.CreateICmpEQ(
      D.CreateAnd(card(D, line(D, Address, 0)), card(D, line(D, End, 0))),
      D.getInt8(0));
  BasicBlock *Looked = Look->getParent();
  Builder J(InArena);
  PHINode *Call = J.CreatePHI(J.getInt1Ty(), 2);
  for (BasicBlock *P : predecessors(InArena->getParent())) {
    Builder K(P->getTerminator());
    Call->addIncoming(
        P == Looked ? Clean : K.CreateICmpNE(Length, K.getInt64(0)), P);
  }
  Builder E(when(Call, InArena, /*Unlikely=*/false));
  callMark(E, Start, Length);
}

void Emitter::mark(const LaneWrite &W) {
  Builder B(W.At);
  auto *Bits = B.getIntNTy(W.Lanes);
  auto *Bools = FixedVectorType::get(B.getInt1Ty(), W.Lanes);
  Value *Mask = W.Mask ? W.Mask : Constant::getAllOnesValue(Bools);
  if (Mask->getType() != Bools) // the sign bits of a vector of integers
    Mask = B.CreateICmpSLT(Mask, Constant::getNullValue(Mask->getType()));
  if (W.Count) {
    Type *T = W.Count->getType();
    SmallVector<Constant *, 16> Numbers;
    for (unsigned I = 0; I != W.Lanes; ++I)
      Numbers.push_back(ConstantInt::get(T, I));
    Mask = B.CreateAnd(
        Mask, B.CreateICmpULT(ConstantVector::get(Numbers),
                              B.CreateVectorSplat(W.Lanes, W.Count)));
  }

  if (W.Kind == LaneWrite::Scattered) {
    Value *Addresses = B.CreatePtrToInt(
        W.Pointer, FixedVectorType::get(Word, W.Lanes));
    Value *Due = B.CreateBitCast(
        B.CreateAnd(Mask, inArena(B, Addresses)), Bits);
    Instruction *Any = when(B.CreateICmpNE(Due, ConstantInt::get(Bits, 0)),
                            W.At, /*Unlikely=*/false);
    for (unsigned I = 0; I != W.Lanes; ++I) {
      Builder C(Any);
      Value *One = C.CreateTrunc(C.CreateLShr(Due, I), C.getInt1Ty());
      Instruction *Then = when(One, Any, /*Unlikely=*/false);
      Builder D(Then);
      markCards(Then, D.CreateExtractElement(Addresses, I), W.LaneSize,
                Align(1));
    }
    return;
  }

  // The active lanes, the first of them, and how far they reach.
  Value *Active = B.CreateBitCast(Mask, Bits);
  Instruction *Any = when(B.CreateICmpNE(Active, ConstantInt::get(Bits, 0)),
                          W.At, /*Unlikely=*/false);
  Builder C(Any);
  Value *Size = C.getInt64(W.LaneSize);
  auto Number = [&](Intrinsic::ID Id) {
    Value *N = Id == Intrinsic::ctpop
                   ? C.CreateUnaryIntrinsic(Id, Active)
                   : C.CreateBinaryIntrinsic(Id, Active, C.getTrue());
    return C.CreateZExtOrTrunc(N, Word);
  };
  if (W.Kind == LaneWrite::Compressed)
    return markRange(Any, W.Pointer,
                     C.CreateMul(Number(Intrinsic::ctpop), Size));
  Value *First = Number(Intrinsic::cttz);
  Value *End = C.CreateSub(C.getInt64(W.Lanes), Number(Intrinsic::ctlz));
  Value *Start = C.CreateGEP(Byte, W.Pointer, C.CreateMul(First, Size));
  markRange(Any, Start, C.CreateMul(C.CreateSub(End, First), Size));
}

void Emitter::setUnseen(IRBuilder<> &B) {
  StoreInst *S = B.CreateAlignedStore(B.getInt8(1), Unseen, Align(1));
  S->setAtomic(AtomicOrdering::Monotonic);
}

void Emitter::enter(Builder &B) {
  Function *F = outOfLine("perdure.enter", {}, [&](auto &To, Function &) {
    setUnseen(To);
    To.CreateAtomicRMW(AtomicRMWInst::Add, UnseenCalls, To.getInt64(1),
                       Align(8), AtomicOrdering::Monotonic);
  });
  callOutOfLine(B, F, {});
}

void Emitter::leave(Builder &B) {
  Function *F = outOfLine("perdure.leave", {}, [&](auto &To, Function &) {
    // The flag first: a commit finds one of the two.
    setUnseen(To);
    To.CreateAtomicRMW(AtomicRMWInst::Sub, UnseenCalls, To.getInt64(1),
                       Align(8), AtomicOrdering::Release);
  });
  callOutOfLine(B, F, {});
}
