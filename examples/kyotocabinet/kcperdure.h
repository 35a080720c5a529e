/* Kyoto Cabinet's mapped file over libperdure: the hand that atomic.patch lays on kcfile.cc.
 *
 * The invariant: between begin and commit, and whenever nothing is synchronized, the file on disk is as of the last commit: so nothing may
 * shorten it either, as ftruncate would at once. It is cut when what is committed needs no more of it: never within a
 * transaction, whatever sync another thread asks for then.
 */
#ifndef KCPERDURE_H
#define KCPERDURE_H

#include <fcntl.h>
#include <perdure.h>
#include <stdint.h>
#include <string.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

class AtomicFile {
public:
  AtomicFile() : file_(NULL), begun_(-1) {}
  operator bool() const { return file_; }

  /* The whole file, as far as it may ever reach, instead of its first bytes. One that a killed writer made longer and never committed anything
   * to is empty: what is committed begins with a magic number. */
  void *open(int fd, const std::string &path, int64_t *msiz, int64_t *lsiz) {
    if (perdure_file_open(fd, path.c_str(), &file_))
      return MAP_FAILED;
    perdure_file_keep_private(file_); // its lock keeps readers out
    *msiz = perdure_file_reach(file_);
    char *memory = (char *)perdure_file_memory(file_);
    if (*lsiz > 0 && *memory == 0)
      *lsiz = 0;
    return memory;
  }
  bool close() {
    bool synced = commit();
    bool closed = perdure_file_close(file_) == PERDURE_OK;
    file_ = NULL;
    return synced && closed;
  }

  bool begin(int64_t size) {
    if (!commit())
      return false;
    begun_ = size;
    return true;
  }
  bool end(bool keep, int64_t *size) {
    int64_t begun = begun_;
    begun_ = -1;
    if (keep)
      return commit();
    *size = begun;
    return perdure_file_abort(file_) == PERDURE_OK;
  }
  bool sync() { return commit(); }

  /* The length that the program sees becomes `size`; `psiz` is the file's. */
  bool resize(int fd, char *memory, int64_t lsiz, int64_t *psiz, int64_t size) {
    if (size > lsiz && *psiz > lsiz)
      memset(memory + lsiz, 0, (size < *psiz ? size : *psiz) - lsiz);
    if (size > *psiz) {
      if (ftruncate(fd, size) != 0)
        return false;
      *psiz = size;
    }
    return true;
  }

  /* For a reader, who has locked the file: brings it to the last commit if a writer was killed. The lock is taken anew, because whoever
   * closes any descriptor of a file gives its locks away. */
  static bool recover(int fd, const std::string &path) {
    while (access((path + ".perdure").c_str(), F_OK) == 0) {
      perdure_file *file;
      int writable = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
      bool done = writable >= 0 && perdure_file_open(writable, path.c_str(), &file) == PERDURE_OK && perdure_file_close(file) == PERDURE_OK;
      if (writable >= 0)
        ::close(writable);
      struct flock lock = {};
      lock.l_type = F_RDLCK;
      if (!done || fcntl(fd, F_SETLKW, &lock) != 0)
        return false;
    }
    return true;
  }

private:
  bool commit() { return perdure_file_sync(file_) == PERDURE_OK; }

  perdure_file *file_;
  int64_t begun_; /* the length at the beginning of the transaction; -1: none */
};

#endif
