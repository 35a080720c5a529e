//===- Options.cpp - What the command line says ---------------------------===//

#include "Options.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/CommandLine.h"
#include <cstdlib>

using namespace llvm;

static cl::opt<bool> VerifyOption("perdure-verify", cl::Hidden,
                                  cl::desc("ask for verify mode by default"));
static cl::opt<std::string>
    StatsOption("perdure-stats", cl::Hidden, cl::value_desc("file"),
                cl::desc("add a line of JSON per module to this file"));
static cl::list<std::string>
    IgnoreOption("perdure-ignore", cl::Hidden, cl::CommaSeparated,
                 cl::value_desc("function"),
                 cl::desc("functions to leave as they are"));

static const char *fromEnvironment(const char *Name) {
  const char *Value = std::getenv(Name);
  return Value ? Value : "";
}

const perdure::Options &perdure::Options::get() {
  static const Options Chosen = [] {
    Options O;
    O.Verify = VerifyOption || *fromEnvironment("PERDURE_PASS_VERIFY");
    O.StatsFile = StatsOption.empty() ? fromEnvironment("PERDURE_PASS_STATS")
                                      : StatsOption.getValue();
    for (const std::string &Name : IgnoreOption)
      O.Ignored.insert(Name);
    SmallVector<StringRef, 8> Names;
    StringRef(fromEnvironment("PERDURE_PASS_IGNORE"))
        .split(Names, ',', -1, /*KeepEmpty=*/false);
    for (StringRef Name : Names)
      O.Ignored.insert(Name);
    return O;
  }();
  return Chosen;
}
