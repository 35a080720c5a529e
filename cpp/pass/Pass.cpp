//===- Pass.cpp - Store tracking for persistent memory --------------------===//
//
// Makes every store to the arena set the card of the line that it touches, and
// makes the program know where it cannot: see abi.h. Runs last, after
// vectorization; with link-time optimization when the program is linked.
//
//===----------------------------------------------------------------------===//

#include "Calls.h"
#include "Options.h"
#include "abi.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/Analysis/CallGraph.h"
#include "llvm/Analysis/TargetLibraryInfo.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/ADT/SCCIterator.h"
#include "llvm/IR/DiagnosticInfo.h"
#include "llvm/IR/Module.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Passes/PassPlugin.h"
#include "llvm/TargetParser/Triple.h"
#include "llvm/Transforms/Utils/ModuleUtils.h"

using namespace llvm;
using namespace perdure;

static constexpr const char *Instrumented = "perdure-instrumented";
/// What is noted in bitcode for the linker.
static constexpr const char *Ignore = "perdure-ignore";
static constexpr const char *Verify = "perdure-verify";

/// Functions with __attribute__((annotate("perdure_ignore"))), or named by the
/// user.
static void findIgnored(Module &M, ModuleFacts &Facts) {
  if (auto *List = M.getGlobalVariable("llvm.global.annotations"))
    if (auto *Array = dyn_cast<ConstantArray>(List->getInitializer()))
      for (const Use &Entry : Array->operands()) {
        auto *One = dyn_cast<ConstantStruct>(Entry);
        if (!One || One->getNumOperands() < 2)
          continue;
        StringRef Text;
        auto *F = dyn_cast<Function>(One->getOperand(0)->stripPointerCasts());
        if (F && getConstantStringInfo(One->getOperand(1), Text) &&
            Text == "perdure_ignore")
          Facts.Ignored.insert(F);
      }
  // Resolvers of indirect functions run before anything else, the cards too.
  for (GlobalIFunc &I : M.ifuncs())
    Facts.Ignored.insert(I.getResolverFunction());
  for (Function &F : M)
    // A naked function is assembly and nothing else.
    if (Options::get().Ignored.contains(F.getName()) ||
        F.hasFnAttribute(Ignore) || F.hasFnAttribute(Attribute::Naked))
      Facts.Ignored.insert(&F);
}

static bool isToDo(const Function &F, const ModuleFacts &Facts) {
  return !F.isDeclarationForLinker() && !F.hasFnAttribute(Instrumented) &&
         !Facts.Ignored.contains(&F);
}

/// Callees before callers; functions that call each other are not quiet.
static void findQuiet(Module &M, ModuleFacts &Facts,
                      FunctionAnalysisManager &FAM) {
  CallGraph Graph(M);
  for (auto At = scc_begin(&Graph); !At.isAtEnd(); ++At) {
    if (At.hasCycle())
      continue;
    Function *F = At->front()->getFunction();
    if (!F || F->isDeclarationForLinker() || Facts.Ignored.contains(F) ||
        F->hasOptNone())
      continue;
    Stats Nowhere;
    Effects E(*F, FAM.getResult<TargetLibraryAnalysis>(*F), Facts, Nowhere);
    if (!E.hasBarriers())
      Facts.Quiet.insert(F);
  }
}

namespace {

struct StoreTracking : PassInfoMixin<StoreTracking> {
  PreservedAnalyses run(Module &M, ModuleAnalysisManager &AM) {
    if (Triple(M.getTargetTriple()).getArch() != Triple::x86_64) {
      M.getContext().emitError(
          "perdure: stores are tracked on x86-64 only, not on " +
          M.getTargetTriple());
      return PreservedAnalyses::all();
    }
    auto &FAM =
        AM.getResult<FunctionAnalysisManagerModuleProxy>(M).getManager();
    ModuleFacts Facts;
    findIgnored(M, Facts);
    if (Options::get().Verify)
      M.setModuleFlag(Module::Max, Verify, 1);
    if (Options::get().AtLinkTime) {
      for (Function &F : M)
        if (Facts.Ignored.contains(&F))
          F.addFnAttr(Ignore);
      return PreservedAnalyses::none();
    }
    findQuiet(M, Facts, FAM);

    Stats Counts;
    Counts.add(Count::Ignored, Facts.Ignored.size());
    SmallVector<Function *, 16> Todo;
    for (Function &F : M)
      if (isToDo(F, Facts))
        Todo.push_back(&F);
    if (Todo.empty() && M.getGlobalVariable("__perdure_instrumented"))
      return PreservedAnalyses::all();

    Emitter E(M);
    CallEmitter Callees(M, E);
    for (Function *F : Todo) {
      F->addFnAttr(Instrumented);
      instrument(*F, Facts, FAM, E, Callees, Counts);
      if (!F->hasLocalLinkage() || F->hasAddressTaken())
        CallEmitter::sign(*F);
    }
    Callees.watchAddressTaken(Counts);
    Callees.finish();
    announce(M);
    Counts.write(M.getSourceFileName());
    return PreservedAnalyses::none();
  }

  static bool isRequired() { return true; }

private:
  static void instrument(Function &F, const ModuleFacts &Facts,
                         FunctionAnalysisManager &FAM, Emitter &E,
                         CallEmitter &Callees, Stats &Counts) {
    Effects Found(F, FAM.getResult<TargetLibraryAnalysis>(F), Facts, Counts);
    SmallVector<Mark, 16> Marks = plan(F, Found, FAM, Counts);
    // From the end of each block to its beginning, so that what is split off
    // is not moved again: as the list goes from front to back, backwards.
    MapVector<const BasicBlock *, SmallVector<const Mark *, 8>> ByBlock;
    for (const Mark &Next : Marks)
      ByBlock[Next.At->getParent()].push_back(&Next);
    for (auto &[Block, List] : ByBlock)
      llvm::stable_sort(List, [](const Mark *X, const Mark *Y) {
        return X->At != Y->At && Y->At->comesBefore(X->At);
      });
    for (auto &[Block, List] : ByBlock)
      for (const Mark *Next : List)
        E.mark(*Next);
    for (const LaneWrite &Next : reverse(Found.LaneWrites))
      E.mark(Next);
    for (const Call &Next : reverse(Found.Calls))
      Callees.emit(Next);
    FAM.invalidate(F, PreservedAnalyses::none());
  }

  /// The first thing that a program or library does: one such function for all
  /// of its objects.
  static void prepareCards(Module &M) {
    LLVMContext &C = M.getContext();
    auto *Nothing = FunctionType::get(Type::getVoidTy(C), false);
    auto *F = Function::Create(Nothing, GlobalValue::LinkOnceODRLinkage,
                               "perdure.prepare", M);
    F->setVisibility(GlobalValue::HiddenVisibility);
    F->setComdat(M.getOrInsertComdat(F->getName()));
    F->addFnAttr(Attribute::NoUnwind);
    F->addFnAttr(Instrumented);
    F->setUWTableKind(UWTableKind::Default);
    IRBuilder<> B(BasicBlock::Create(C, "", F));
    B.CreateCall(M.getOrInsertFunction("__perdure_prepare", Nothing));
    B.CreateRetVoid();
    appendToGlobalCtors(M, F, 0, F);
  }

  static void announce(Module &M) {
    if (M.getGlobalVariable("__perdure_instrumented"))
      return;
    prepareCards(M);
    auto *Byte = Type::getInt8Ty(M.getContext());
    auto *Flag = new GlobalVariable(
        M, Byte, /*isConstant=*/true, GlobalValue::WeakAnyLinkage,
        ConstantInt::get(Byte, PERDURE_INSTRUMENTED |
                                   (M.getModuleFlag(Verify)
                                        ? PERDURE_INSTRUMENTED_VERIFY
                                        : 0)),
        "__perdure_instrumented");
    appendToUsed(M, {Flag});
  }
};

} // namespace

extern "C" __attribute__((visibility("default"))) PassPluginLibraryInfo
llvmGetPassPluginInfo() {
  return {LLVM_PLUGIN_API_VERSION, "perdure", "1", [](PassBuilder &PB) {
            PB.registerOptimizerLastEPCallback(
                [](ModulePassManager &MPM, OptimizationLevel) {
                  MPM.addPass(StoreTracking());
                });
            PB.registerFullLinkTimeOptimizationLastEPCallback(
                [](ModulePassManager &MPM, OptimizationLevel) {
                  MPM.addPass(StoreTracking());
                });
            PB.registerPipelineParsingCallback(
                [](StringRef Name, ModulePassManager &MPM,
                   ArrayRef<PassBuilder::PipelineElement>) {
                  if (Name != "perdure")
                    return false;
                  MPM.addPass(StoreTracking());
                  return true;
                });
          }};
}
