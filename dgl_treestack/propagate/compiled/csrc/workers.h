// Threads that wait for work between the levels of a sweep.

#pragma once

#include <ATen/Parallel.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <functional>
#include <thread>
#include <vector>

extern "C" {
__attribute__((weak)) int omp_get_max_threads();
__attribute__((weak)) void omp_set_num_threads(int);
__attribute__((weak)) int MKL_Set_Num_Threads_Local(int);
}

namespace treestack {

// While it exists, torch and its BLAS use one thread on this thread: with two, a sum has another order, and a product of few
// rows takes longer. A new thread does not inherit these settings.
class OneThread {
 public:
  OneThread() {
    if (omp_get_max_threads && omp_set_num_threads) threads_ = omp_get_max_threads(), omp_set_num_threads(1);
    if (MKL_Set_Num_Threads_Local) blas_threads_ = MKL_Set_Num_Threads_Local(1);
  }
  ~OneThread() {
    if (omp_get_max_threads && omp_set_num_threads) omp_set_num_threads(threads_);
    if (MKL_Set_Num_Threads_Local) MKL_Set_Num_Threads_Local(blas_threads_);
  }
  OneThread(const OneThread&) = delete;

 private:
  int threads_ = 1, blas_threads_ = 1;
};

// A level of a batch takes 0.1 to 2 ms, in which a thread that sleeps wakes too late: a thread first waits in a loop.
class Workers {
 public:
  using Function = std::function<void(size_t)>;

  static size_t most() { return std::max(1u, std::thread::hardware_concurrency()); }

  // Calls function(i) for i = 0 .. count - 1 in so many threads, this one included. Throws the first exception of a call.
  // In several threads the last come first: they should be those that take longest.
  static void run(size_t count, size_t threads, const Function& function) {
    threads = std::min({threads, count, most()});
    if (threads < 2) {
      for (size_t i = 0; i < count; ++i) function(i);
      return;
    }
    static Workers* workers = nullptr;  // never destroyed: its threads may outlive what a destructor needs
    // A forked process has no threads but its own.
    if (!workers || workers->process_ != getpid()) workers = new Workers;
    workers->share(count, threads - 1, function);
  }

 private:
  void share(size_t count, size_t helpers, const Function& function) {
    for (; started_ < helpers; ++started_) std::thread([this, number = started_] { loop(number); }).detach();
    function_ = &function;
    count_ = count;
    helpers_ = helpers;
    next_ = 0;
    error_ = nullptr;
    failed_ = false;
    open_ = true;
    ++round_;
    round_.notify_all();
    take();
    open_ = false;  // a thread that wakes later has nothing to do, and nobody waits for it
    for (size_t busy; (busy = busy_) > 0;) wait(busy_, busy);
    if (error_) std::rethrow_exception(error_);
  }

  void loop(size_t number) {
    at::init_num_threads();  // torch's own settings come first, and would come later
    OneThread one_thread;
    for (size_t seen = 0;;) {
      wait(round_, seen);
      seen = round_;
      ++busy_;
      if (open_ && number < helpers_) take();
      --busy_;
      busy_.notify_one();
    }
  }

  void take() {
    for (size_t taken; (taken = next_++) < count_;) try {
        if (!failed_) (*function_)(count_ - 1 - taken);
      } catch (...) {
        if (!failed_.exchange(true)) error_ = std::current_exception();
      }
  }

  // Returns when the value is no longer the old one.
  static void wait(const std::atomic<size_t>& value, size_t old) {
    for (int i = 0; i < 50000 && value == old; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
    value.wait(old);
  }

  const pid_t process_ = getpid();
  const Function* function_ = nullptr;
  size_t count_ = 0, started_ = 0;
  std::atomic<size_t> helpers_ = 0, next_ = 0, busy_ = 0, round_ = 0;
  std::atomic<bool> open_ = false, failed_ = false;
  std::exception_ptr error_;
};

}  // namespace treestack
