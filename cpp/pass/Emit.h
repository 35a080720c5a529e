//===- Emit.h - The code of marks -------------------------------*- C++ -*-===//
//
// Invariant: what is emitted reads cards only of bytes that are about to be
// written, wherever they are: every address has a card. Everything else is
// left to __perdure_mark, which takes any address.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_EMIT_H
#define PERDURE_PASS_EMIT_H

#include "Plan.h"
#include "llvm/IR/IRBuilder.h"

namespace perdure {

/// A builder that stands in front of an instruction, at its place in the
/// source.
class Builder : public llvm::IRBuilder<> {
public:
  explicit Builder(llvm::Instruction *At);
};

class Emitter {
public:
  explicit Emitter(llvm::Module &M);

  void mark(const Mark &M);
  void mark(const LaneWrite &W);
  /// Marks Length bytes (i64) from Pointer, unless all are marked.
  void markRange(llvm::Instruction *At, llvm::Value *Pointer,
                 llvm::Value *Length);
  /// Calls the runtime, without a look at cards.
  void callMark(Builder &B, llvm::Value *Pointer, llvm::Value *Length);
  void callMarkLines(Builder &B, llvm::Value *First, llvm::Value *Last);
  /// Whether an address (or each of a vector of them) is in the arena.
  llvm::Value *inArena(Builder &B, llvm::Value *Address);
  /// A block that runs, in front of At, if Condition holds; its end.
  llvm::Instruction *when(llvm::Value *Condition, llvm::Instruction *At,
                          bool Unlikely);

  /// Something may be stored that is not seen.
  void setUnseen(llvm::IRBuilder<> &B);
  /// From here to leave(), in this thread or, without leave(), for good.
  void enter(Builder &B);
  void leave(Builder &B);

private:
  /// A function of the object's own, made when it is first asked for. It keeps
  /// all general registers but r11.
  using Body = llvm::function_ref<void(llvm::IRBuilder<> &, llvm::Function &)>;
  llvm::Function *outOfLine(llvm::StringRef Name,
                            llvm::ArrayRef<llvm::Type *> Parameters, Body Make);
  /// Calls it without being seen to: to the back end it is an instruction, so a
  /// function that calls nothing else needs no frame and saves no register.
  void callOutOfLine(Builder &B, llvm::Function *F,
                     llvm::ArrayRef<llvm::Value *> Arguments);
  /// The number of the line that Address + Offset is in, and its card.
  llvm::Value *line(Builder &B, llvm::Value *Address, uint64_t Offset);
  llvm::Value *card(Builder &B, llvm::Value *Line);
  /// In front of At: a call if a card of [Address, Size bytes) is not set.
  void markCards(llvm::Instruction *At, llvm::Value *Address, uint64_t Size,
                 llvm::Align Alignment);

  llvm::Module &M;
  llvm::Type *Byte, *Word;
  llvm::PointerType *Pointer;
  llvm::Constant *Unseen, *UnseenCalls;
  /// Where the arena and its cards lie: see abi.h.
  uint64_t ArenaShift, CardBias;
};

} // namespace perdure

#endif
