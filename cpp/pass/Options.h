//===- Options.h - What the command line says -------------------*- C++ -*-===//
//
// The options of the pass, as perdure-cc hands them on: by -mllvm where the
// compiler runs the pass, by the environment where the linker does, which
// reads its own options before it loads a plugin.
//
//===----------------------------------------------------------------------===//

#ifndef PERDURE_PASS_OPTIONS_H
#define PERDURE_PASS_OPTIONS_H

#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/StringSet.h"
#include <string>

namespace perdure {

struct Options {
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
