//===- Provenance.cpp - Pointers that cannot lead into a heap -------------===//

#include "Provenance.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Analysis/ValueTracking.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/GlobalVariable.h"
#include "llvm/IR/Instructions.h"
#include "llvm/IR/IntrinsicInst.h"

using namespace llvm;
using perdure::Foreign;

// A call whose result is memory of the C library's own.
static bool isFresh(const CallBase &Call) {
  const Function *Callee = Call.getCalledFunction();
  if (!Callee || !Callee->isDeclaration() || Call.isNoBuiltin())
    return false;
  return StringSwitch<bool>(Callee->getName())
      .Cases("malloc", "calloc", "aligned_alloc", "memalign", "valloc", true)
      .Cases("strdup", "__strdup", "strndup", "__errno_location", true)
      .Cases("__cxa_allocate_exception", "__cxa_begin_catch", true)
      .Cases("__ctype_b_loc", "localtime", "gmtime", "localeconv", true)
      .Default(false);
}

static std::optional<Foreign> foreignObject(const Value *Object) {
  if (isa<AllocaInst>(Object))
    return Foreign::Stack;
  if (const auto *A = dyn_cast<Argument>(Object))
    if (A->hasPassPointeeByValueCopyAttr())
      return Foreign::Stack;
  if (isa<GlobalObject>(Object) || isa<ConstantPointerNull>(Object) ||
      isa<UndefValue>(Object))
    return Foreign::Global;
  if (const auto *I = dyn_cast<IntrinsicInst>(Object))
    if (I->getIntrinsicID() == Intrinsic::threadlocal_address)
      return Foreign::Global;
  if (const auto *Call = dyn_cast<CallBase>(Object))
    if (isFresh(*Call))
      return Foreign::Fresh;
  return std::nullopt;
}

std::optional<Foreign> perdure::foreign(const Value *Pointer) {
  // Address spaces 256-258 are gs, fs and ss on x86.
  if (unsigned Space = Pointer->getType()->getPointerAddressSpace();
      Space >= 256 && Space <= 258)
    return Foreign::Segment;
  SmallVector<const Value *, 4> Objects;
  getUnderlyingObjects(Pointer, Objects, /*LI=*/nullptr, /*MaxLookup=*/0);
  std::optional<Foreign> Why;
  for (const Value *Object : Objects) {
    std::optional<Foreign> One = foreignObject(Object);
    if (!One)
      return std::nullopt;
    Why = One;
  }
  return Why;
}
