//===- Options.cpp - What the command line says ---------------------------===//

#include "Options.h"
#include "llvm/Support/CommandLine.h"
#include <cstdlib>

using namespace llvm;

static cl::opt<bool>
    LinkTimeOption("perdure-at-link-time", cl::Hidden,
                   cl::desc("leave the work to the linker, which runs this "
                            "pass over all of the program"));
static cl::opt<bool> VerifyOption("perdure-verify", cl::Hidden,
                                  cl::desc("ask for verify mode by default"));
static cl::opt<std::string>
    StatsOption("perdure-stats", cl::Hidden, cl::value_desc("file"),
                cl::desc("add a line of JSON per module to this file"));
static cl::list<std::string>
    IgnoreOption("perdure-ignore", cl::Hidden, cl::CommaSeparated,
                 cl::value_desc("function"),
                 cl::desc("functions to leave as they are"));

const perdure::Options &perdure::Options::get() {
  static const Options Chosen = [] {
    Options O;
    O.AtLinkTime = LinkTimeOption;
    O.Verify = VerifyOption;
    const char *File = std::getenv("PERDURE_PASS_STATS");
    O.StatsFile = StatsOption.empty() && File ? File : StatsOption.getValue();
    for (const std::string &Name : IgnoreOption)
      O.Ignored.insert(Name);
    return O;
  }();
  return Chosen;
}
