//===- Stats.cpp - What became of each store ------------------------------===//

#include "Stats.h"
#include "Options.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

static constexpr const char *Names[] = {
    "seen",         "inline",         "merged",         "redundant",
    "hoisted",      "stack",          "global",         "fresh",
    "segment",      "ranges",         "calls_marked",   "calls_harmless",
    "calls_seen",   "calls_run_time", "calls_indirect", "calls_unseen",
    "address_taken", "ignored"};
static_assert(std::size(Names) == unsigned(perdure::Count::Last));

void perdure::Stats::write(StringRef Module) const {
  const std::string &File = Options::get().StatsFile;
  if (File.empty())
    return;
  json::Object Line{{"object", Module}};
  for (unsigned I = 0; I != Counts.size(); ++I)
    Line[Names[I]] = int64_t(Counts[I]);
  std::string Text;
  raw_string_ostream(Text) << json::Value(std::move(Line)) << '\n';
  // One write at the end of the file: compilers that run side by side do not
  // mix their lines.
  std::error_code Error;
  raw_fd_ostream Out(File, Error, sys::fs::CD_OpenAlways, sys::fs::FA_Write,
                     sys::fs::OF_Append);
  if (Error) {
    errs() << "perdure: cannot add statistics to \"" << File
           << "\": " << Error.message() << '\n';
    return;
  }
  Out.SetUnbuffered();
  Out << Text;
}
