//===- Calls.cpp - Calls of functions that may not be instrumented --------===//

#include "Calls.h"
#include "Provenance.h"
#include "abi.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/MDBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/Transforms/Utils/BasicBlockUtils.h"
#include "llvm/Transforms/Utils/Cloning.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;
using namespace perdure;

CallEmitter::CallEmitter(Module &M, Emitter &E)
    : M(M), E(E),
      Seen(new GlobalVariable(M, Type::getInt8Ty(M.getContext()), false,
                              GlobalValue::InternalLinkage,
                              ConstantInt::get(Type::getInt8Ty(M.getContext()),
                                               0),
                              "perdure.placeholder")) {}

void CallEmitter::emit(const Call &C) {
  switch (C.Kind) {
  case Callee::Known:
    return known(*C.At, *C.Row);
  case Callee::Opaque:
    return opaque(*C.At);
  case Callee::Direct:
    if (auto *Plain = dyn_cast<CallInst>(C.At))
      return direct(*Plain);
    return invoke(*C.At);
  case Callee::Indirect:
    if (auto *Plain = dyn_cast<CallInst>(C.At))
      return indirect(*Plain);
    return invoke(*C.At);
  }
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

Instruction *CallEmitter::afterReturn(CallBase &Call) {
  if (auto *Plain = dyn_cast<CallInst>(&Call))
    return Plain->isMustTailCall() ? nullptr : Plain->getNextNode();
  if (auto *I = dyn_cast<InvokeInst>(&Call)) {
    BasicBlock *Next = I->getNormalDest();
    if (!Next->getSinglePredecessor())
      Next = SplitEdge(I->getParent(), Next);
    return &*Next->getFirstInsertionPt();
  }
  return nullptr; // asm goto: several ways on
}

Instruction *CallEmitter::afterUnwind(InvokeInst &I) {
  BasicBlock *Pad = I.getUnwindDest();
  if (!Pad->isLandingPad())
    return nullptr;
  if (!Pad->getSinglePredecessor()) {
    SmallVector<BasicBlock *, 2> New;
    SplitLandingPadPredecessors(Pad, {I.getParent()}, ".perdure", ".others",
                                New);
    Pad = New.front();
  }
  return &*Pad->getFirstInsertionPt();
}

//===----------------------------------------------------------------------===//
// Functions of the table
//===----------------------------------------------------------------------===//

static Value *widen(Builder &B, Value *Count) {
  // Counts of type int are never negative where they are valid.
  Type *Word = B.getInt64Ty();
  if (Count->getType() == Word)
    return Count;
  Value *Wide = B.CreateSExt(Count, Word);
  return B.CreateBinaryIntrinsic(Intrinsic::smax, Wide, B.getInt64(0));
}

void CallEmitter::writeBefore(CallBase &Call, const WriteRule &R) {
  Value *Pointer = Call.getArgOperand(R.Pointer);
  if (R.Size == Extent::Bytes || R.Size == Extent::Argument ||
      foreign(Pointer))
    return; // planned with the stores
  Builder A(&Call);
  Value *Address = A.CreatePtrToInt(Pointer, A.getInt64Ty());
  Builder B(E.when(E.inArena(A, Address), &Call, /*Unlikely=*/false));
  auto Argument = [&](unsigned I) { return Call.getArgOperand(I); };
  auto LengthOf = [&](Value *String) -> Value * {
    return B.CreateCall(M.getOrInsertFunction("strlen", B.getInt64Ty(),
                                              B.getPtrTy()),
                        {String});
  };
  Value *Length = nullptr;
  switch (R.Size) {
  case Extent::Product:
    Length = B.CreateMul(widen(B, Argument(R.A)), widen(B, Argument(R.B)));
    break;
  case Extent::Times:
    Length = B.CreateMul(widen(B, Argument(R.A)), B.getInt64(R.K));
    break;
  case Extent::String:
    Length = B.CreateAdd(LengthOf(Argument(R.A)), B.getInt64(1));
    break;
  case Extent::Append:
    Length = B.CreateAdd(B.CreateAdd(LengthOf(Pointer), B.getInt64(1)),
                         LengthOf(Argument(R.A)));
    break;
  case Extent::AppendN:
    Length = B.CreateAdd(
        B.CreateAdd(LengthOf(Pointer), B.getInt64(1)),
        B.CreateCall(M.getOrInsertFunction("strnlen", B.getInt64Ty(),
                                           B.getPtrTy(), B.getInt64Ty()),
                     {Argument(R.A), widen(B, Argument(R.B))}));
    break;
  default:
    llvm_unreachable("what a call returns is known after it");
  }
  E.callMark(B, Pointer, Length);
}

void CallEmitter::writeAfter(CallBase &Call, const WriteRule &R) {
  Value *Pointer = Call.getArgOperand(R.Pointer);
  if (foreign(Pointer))
    return;
  Instruction *At = afterReturn(Call);
  if (!At) {
    Builder B(&Call);
    E.enter(B); // for good
    return;
  }
  Builder A(At);
  Value *Address = A.CreatePtrToInt(Pointer, A.getInt64Ty());
  Builder B(E.when(E.inArena(A, Address), At, /*Unlikely=*/false));
  auto Argument = [&](unsigned I) { return widen(B, Call.getArgOperand(I)); };
  auto Result = [&]() {
    return B.CreateSExt(&Call, B.getInt64Ty());
  };
  Value *Zero = B.getInt64(0), *One = B.getInt64(1), *Length = nullptr;
  switch (R.Size) {
  case Extent::Bytes:
    Length = B.getInt64(R.K);
    break;
  case Extent::Argument:
    Length = Argument(R.A);
    break;
  case Extent::Product:
    Length = B.CreateMul(Argument(R.A), Argument(R.B));
    break;
  case Extent::Times:
    Length = B.CreateMul(Argument(R.A), B.getInt64(R.K));
    break;
  case Extent::Returned: {
    Value *N = Result();
    Length = B.CreateSelect(B.CreateICmpSLT(N, Zero), Argument(R.A), N);
    break;
  }
  case Extent::Printed: {
    Value *N = Result(), *Max = Argument(R.A);
    Value *Written = B.CreateBinaryIntrinsic(Intrinsic::umin,
                                             B.CreateAdd(N, One), Max);
    Length = B.CreateSelect(B.CreateICmpSLT(N, Zero), Max, Written);
    break;
  }
  case Extent::Sprinted: {
    Value *N = Result();
    Value *Failed = B.CreateICmpSLT(N, Zero);
    Instruction *Here = &*B.GetInsertPoint();
    Builder F(E.when(Failed, Here, /*Unlikely=*/true));
    E.setUnseen(F);
    B.SetInsertPoint(Here);
    Length = B.CreateSelect(Failed, Zero, B.CreateAdd(N, One));
    break;
  }
  default:
    llvm_unreachable("marked before the call");
  }
  E.callMark(B, Pointer, Length);
}

void CallEmitter::known(CallBase &Call, const KnownFunction &Row) {
  for (unsigned I = 0; I != Row.Count; ++I) {
    const WriteRule &R = Row.Writes[I];
    if (R.Moment != When::After)
      writeBefore(Call, R);
    if (R.Moment != When::Before)
      writeAfter(Call, R);
  }
  if (!(Row.Flags & (KnownFunction::Arguments | KnownFunction::Retains)))
    return;
  // Nobody knows how far it writes: unseen, if an argument leads to a heap.
  Builder B(&Call);
  Value *Any = B.getFalse();
  for (unsigned I = 0; I != Call.arg_size(); ++I) {
    Value *Argument = Call.getArgOperand(I);
    if (!Argument->getType()->isPointerTy() || Call.onlyReadsMemory(I))
      continue;
    // What is kept may be on a stack, whose stores are not looked at.
    if (foreign(Argument))
      continue;
    Any = B.CreateOr(
        Any, E.inArena(B, B.CreatePtrToInt(Argument, B.getInt64Ty())));
  }
  if (isa<Constant>(Any))
    return;
  Builder C(E.when(Any, &Call, /*Unlikely=*/false));
  Instruction *At = Row.Flags & KnownFunction::Retains ? nullptr
                                                       : afterReturn(Call);
  E.enter(C);
  if (At) {
    Builder D(E.when(Any, At, /*Unlikely=*/false));
    E.leave(D);
  }
}

//===----------------------------------------------------------------------===//
// Functions that may or may not be instrumented
//===----------------------------------------------------------------------===//

/// Whether the function at an address begins with the signature.
static Value *isSigned(IRBuilder<> &B, Value *Address) {
  Value *At = B.CreateIntToPtr(
      B.CreateAdd(
          B.CreateAnd(Address, B.getInt64(-int64_t(PERDURE_SIGNATURE_ALIGN))),
          B.getInt64(PERDURE_SIGNATURE_OFFSET)),
      B.getPtrTy());
  LoadInst *Found = B.CreateAlignedLoad(B.getInt32Ty(), At, Align(4));
  Found->setMetadata(LLVMContext::MD_nosanitize,
                     MDNode::get(B.getContext(), {}));
  return B.CreateICmpEQ(Found, B.getInt32(PERDURE_SIGNATURE));
}

Value *CallEmitter::isUnseen(CallBase &Call) {
  Builder B(&Call);
  Type *Byte = B.getInt8Ty();
  if (Function *F = calledFunction(Call)) {
    unsigned Number = Callees.insert({F, Callees.size()}).first->second;
    Value *Slot = B.CreateConstInBoundsGEP1_64(Byte, Seen, Number);
    // 0 until the program's start has asked: unseen, which is always right.
    return B.CreateICmpEQ(B.CreateLoad(Byte, Slot), B.getInt8(0));
  }
  Value *Address = B.CreatePtrToInt(Call.getCalledOperand(), B.getInt64Ty());
  return B.CreateNot(isSigned(B, Address));
}

/// The return that a call in tail position is followed by.
static ReturnInst *tailReturn(CallInst &Call) {
  if (!Call.isTailCall())
    return nullptr;
  auto *R = dyn_cast_or_null<ReturnInst>(Call.getNextNonDebugInstruction());
  if (!R || (R->getReturnValue() && R->getReturnValue() != &Call))
    return nullptr;
  return R;
}

void CallEmitter::duplicate(CallInst &Call, Value *Unseen) {
  ReturnInst *Return = tailReturn(Call);
  Instruction *Cold = E.when(Unseen, &Call, /*Unlikely=*/true);
  Builder B(Cold);
  E.enter(B);
  auto *Copy = cast<CallInst>(Call.clone());
  Copy->insertBefore(Cold);
  if (Call.isMustTailCall()) {
    // Nothing can follow it: entered for good.
    ReturnInst *End = cast<ReturnInst>(Return->clone());
    if (End->getReturnValue())
      End->setOperand(0, Copy);
    ReplaceInstWithInst(Cold, End);
    return;
  }
  Copy->setTailCallKind(CallInst::TCK_None);
  E.leave(B);
  if (Return) {
    ReturnInst *End = cast<ReturnInst>(Return->clone());
    if (End->getReturnValue())
      End->setOperand(0, Copy);
    ReplaceInstWithInst(Cold, End);
    return;
  }
  // The plain call gets a block of its own.
  BasicBlock *Tail = Call.getParent(), *ColdBlock = Cold->getParent();
  BasicBlock *Head = ColdBlock->getSinglePredecessor();
  BasicBlock *Rest = SplitBlock(Tail, Call.getNextNode());
  Cold->setSuccessor(0, Rest);
  assert(Head && Tail->getSinglePredecessor() == Head && "an if without else");
  if (!Call.getType()->isVoidTy() && !Call.use_empty()) {
    PHINode *Either = PHINode::Create(Call.getType(), 2, "",
                                      Rest->getFirstInsertionPt());
    Call.replaceAllUsesWith(Either);
    Either->addIncoming(&Call, Tail);
    Either->addIncoming(Copy, ColdBlock);
  }
}

void CallEmitter::surround(CallBase &Call, function_ref<Value *()> Unseen) {
  Builder B(E.when(Unseen(), &Call, /*Unlikely=*/true));
  if (Call.hasFnAttr(Attribute::ReturnsTwice)) {
    // Left more often than entered: the flag alone, each time.
    E.setUnseen(B);
  } else {
    E.enter(B);
  }
  if (Call.doesNotReturn())
    return;
  if (Instruction *At = afterReturn(Call)) {
    Builder C(E.when(Unseen(), At, /*Unlikely=*/true));
    if (Call.hasFnAttr(Attribute::ReturnsTwice))
      E.setUnseen(C);
    else
      E.leave(C);
  }
}

void CallEmitter::direct(CallInst &Call) {
  if (Call.hasFnAttr(Attribute::ReturnsTwice) || !tailReturn(Call) ||
      Call.cannotDuplicate()) {
    Function *F = calledFunction(Call);
    Callees.insert({F, Callees.size()});
    surround(Call, [&, Before = true]() mutable -> Value * {
      if (std::exchange(Before, false))
        return isUnseen(Call);
      Builder B(Call.getNextNode());
      Value *Slot = B.CreateConstInBoundsGEP1_64(
          B.getInt8Ty(), Seen, Callees.find(F)->second);
      return B.CreateICmpEQ(B.CreateLoad(B.getInt8Ty(), Slot), B.getInt8(0));
    });
    return;
  }
  duplicate(Call, isUnseen(Call));
}

void CallEmitter::indirect(CallInst &Call) {
  Value *Unseen = isUnseen(Call);
  if (Call.hasFnAttr(Attribute::ReturnsTwice) || Call.cannotDuplicate())
    surround(Call, [&] { return Unseen; });
  else
    duplicate(Call, Unseen);
}

void CallEmitter::invoke(CallBase &Call) {
  Value *Unseen = isUnseen(Call);
  surround(Call, [&] { return Unseen; });
  if (auto *I = dyn_cast<InvokeInst>(&Call))
    if (Instruction *At = afterUnwind(*I)) {
      Builder B(E.when(Unseen, At, /*Unlikely=*/true));
      E.leave(B);
    }
}

void CallEmitter::opaque(CallBase &Call) {
  Builder B(&Call);
  // Assembly and instructions of the processor run no commit.
  if (Call.isInlineAsm() || isa<IntrinsicInst>(Call)) {
    E.setUnseen(B);
    if (Instruction *At = afterReturn(Call)) {
      Builder C(At);
      E.setUnseen(C);
    } else {
      E.enter(B);
    }
    return;
  }
  E.enter(B);
  if (Call.doesNotReturn() || Call.hasFnAttr(Attribute::ReturnsTwice))
    return;
  if (Instruction *At = afterReturn(Call)) {
    Builder C(At);
    E.leave(C);
    if (auto *I = dyn_cast<InvokeInst>(&Call))
      if (Instruction *Pad = afterUnwind(*I)) {
        Builder D(Pad);
        E.leave(D);
      }
  }
}

//===----------------------------------------------------------------------===//
// The table
//===----------------------------------------------------------------------===//

void CallEmitter::sign(Function &F) {
  if (F.hasPrologueData())
    return;
  LLVMContext &C = F.getContext();
  F.setPrologueData(ConstantStruct::getAnon(
      {ConstantInt::get(Type::getInt64Ty(C), PERDURE_SIGNATURE_PROLOGUE_LOW),
       ConstantInt::get(Type::getInt32Ty(C), PERDURE_SIGNATURE_PROLOGUE_HIGH),
       ConstantInt::get(Type::getInt32Ty(C), PERDURE_SIGNATURE)},
      /*Packed=*/true));
  F.setAlignment(std::max(F.getAlign().valueOrOne(),
                          Align(PERDURE_SIGNATURE_ALIGN)));
}

/// Whether the address of a function goes anywhere but into calls. Tables of
/// virtual functions are read by callers that ask for the signature.
static bool isGivenAway(const Value *V, SmallPtrSetImpl<const Value *> &Done) {
  for (const Use &U : V->uses()) {
    const User *By = U.getUser();
    if (!Done.insert(By).second && !isa<Instruction>(By))
      continue;
    if (const auto *Call = dyn_cast<CallBase>(By); Call && Call->isCallee(&U))
      continue;
    if (isa<ICmpInst>(By) || isa<Function>(By)) // compared; a personality
      continue;
    if (const auto *G = dyn_cast<GlobalVariable>(By)) {
      StringRef Name = G->getName();
      if (Name.starts_with("_ZTV") || Name.starts_with("_ZTC") ||
          Name.starts_with("llvm."))
        continue;
      return true;
    }
    if (isa<Constant>(By)) {
      if (isGivenAway(By, Done))
        return true;
      continue;
    }
    return true;
  }
  return false;
}

void CallEmitter::watchAddressTaken(Stats &Counts) {
  for (Function &F : M) {
    if (F.isIntrinsic() || F.use_empty())
      continue;
    bool Elsewhere = F.isDeclaration() || !F.isDefinitionExact() ||
                     !F.hasFnAttribute("perdure-instrumented");
    if (!Elsewhere || F.getName().starts_with("perdure."))
      continue;
    if (F.isDeclaration() && KnownFunction::find(F.getName()))
      continue;
    SmallPtrSet<const Value *, 16> Done;
    if (!isGivenAway(&F, Done))
      continue;
    Watched.insert(&F);
    Counts.add(Count::AddressTaken);
  }
  if (Function *Main = M.getFunction("main"); !Main || Main->isDeclaration()) {
    if (!Main)
      Main = Function::Create(
          FunctionType::get(Type::getInt32Ty(M.getContext()), false),
          GlobalValue::ExternalWeakLinkage, "main", M);
    Watched.insert(Main);
  }
}

void CallEmitter::finish() {
  LLVMContext &C = M.getContext();
  Type *Byte = Type::getInt8Ty(C), *Word = Type::getInt64Ty(C);
  auto *Pointer = PointerType::getUnqual(C);
  SmallVector<Constant *, 16> Functions;
  for (auto &[F, Number] : Callees)
    Functions.push_back(F);
  append_range(Functions, Watched);
  if (Functions.empty()) {
    Seen->eraseFromParent();
    return;
  }

  // A byte for each, also for those that are only watched: simpler.
  auto *BytesType = ArrayType::get(Byte, Functions.size());
  auto *Bytes = new GlobalVariable(M, BytesType, false,
                                   GlobalValue::InternalLinkage,
                                   Constant::getNullValue(BytesType),
                                   "perdure.seen");
  Seen->replaceAllUsesWith(Bytes);
  Seen->eraseFromParent();
  auto *TableType = ArrayType::get(Pointer, Functions.size());
  // Not constant in the optimizer's eyes: the linker fills it in.
  auto *Table = new GlobalVariable(M, TableType, false,
                                   GlobalValue::InternalLinkage,
                                   ConstantArray::get(TableType, Functions),
                                   "perdure.callees");
  Table->setExternallyInitialized(true);

  auto *F = Function::Create(FunctionType::get(Type::getVoidTy(C), false),
                             GlobalValue::InternalLinkage, "perdure.ask", M);
  F->addFnAttr(Attribute::NoUnwind);
  F->addFnAttr("perdure-instrumented");
  F->setUWTableKind(UWTableKind::Default);
  auto *Entry = BasicBlock::Create(C, "", F);
  auto *Loop = BasicBlock::Create(C, "", F), *Read = BasicBlock::Create(C, "", F),
       *Next = BasicBlock::Create(C, "", F), *Miss = BasicBlock::Create(C, "", F),
       *Hit = BasicBlock::Create(C, "", F), *Strange = BasicBlock::Create(C, "", F),
       *Done = BasicBlock::Create(C, "", F);
  IRBuilder<> B(Entry);
  B.CreateBr(Loop);
  B.SetInsertPoint(Loop);
  PHINode *I = B.CreatePHI(Word, 2);
  I->addIncoming(B.getInt64(0), Entry);
  Value *Target =
      B.CreateLoad(Pointer, B.CreateInBoundsGEP(Pointer, Table, I));
  Value *Address = B.CreatePtrToInt(Target, Word);
  // A weak function that is not there is never called; then nothing is asked.
  B.CreateCondBr(B.CreateICmpEQ(Address, B.getInt64(0)), Next, Read);
  B.SetInsertPoint(Read);
  B.CreateCondBr(isSigned(B, Address), Hit, Strange);
  B.SetInsertPoint(Hit);
  B.CreateStore(B.getInt8(1), B.CreateInBoundsGEP(Byte, Bytes, I));
  B.CreateBr(Next);
  B.SetInsertPoint(Strange);
  B.CreateCondBr(B.CreateICmpUGE(I, B.getInt64(Callees.size())), Miss, Next);
  // Watched, and not instrumented: unseen for good.
  B.SetInsertPoint(Miss);
  B.CreateAtomicRMW(
      AtomicRMWInst::Add,
      M.getOrInsertGlobal("__perdure_unseen_calls", Word), B.getInt64(1),
      Align(8), AtomicOrdering::Monotonic);
  B.CreateBr(Next);
  B.SetInsertPoint(Next);
  Value *After = B.CreateAdd(I, B.getInt64(1));
  I->addIncoming(After, Next);
  B.CreateCondBr(B.CreateICmpEQ(After, B.getInt64(Functions.size())), Done,
                 Loop);
  B.SetInsertPoint(Done);
  B.CreateRetVoid();
  // Before the constructors of the program, as far as the object has some.
  appendToGlobalCtors(M, F, 101);
}
