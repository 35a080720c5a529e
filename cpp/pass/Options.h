//===- Options.h - What the command line says -------------------*- C++ -*-===//
//
// The options of the pass, as perdure-cc hands them on by -mllvm. A linker
// reads its options before it loads a plugin: there, the file of statistics is
// named by the environment, and the rest was noted in the bitcode.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_OPTIONS_H
#define PERDURE_PASS_OPTIONS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace perdure {

struct Options {
  /// Only note what the command line says: the linker runs the pass.
  bool AtLinkTime = false;
  /// Objects ask for verify mode.
  bool Verify = false;
  /// A file to which a line of statistics is added for each module; or none.
  std::string StatsFile;
  /// Functions that are left as they are; their callers know it.
  llvm::StringSet<> Ignored;

  static const Options &get();
};

} // namespace perdure

#endif
