// The loop over the chunks of a sweep, ahead and back, for `stepping`. In C++ because a chunk has some seventy calls of torch,
// most of them on few rows: from Python a call takes longer than what it computes. Names are those of `pieces`, `building` and
// `plan`.

#include <map>
#include <optional>

#include "steps.h"

namespace treestack {

class Sweep {
 public:
  // steps: by arity. parameters: all that maps may use. joint: `at_once` of `Map`.
  Sweep(std::map<size_t, std::shared_ptr<Step>> steps, std::vector<Chunk> chunks, Tensors parameters, bool joint)
      : forms_(std::move(steps)), chunks_(std::move(chunks)), parameters_(std::move(parameters)) {
    for (auto& [arity, step] : forms_) steps_.emplace(arity, Steps(*step, parameters_, joint));
  }

  Sweep(const Sweep&) = delete;  // steps refer to what is here

  // How many numbers x and y take up, of all chunks or of the largest.
  int64_t room(bool all) const {
    int64_t found = 0;
    for (auto& chunk : chunks_) {
      auto own = room_for(*forms_.at(chunk.arity), chunk.count);
      found = all ? found + own : std::max(found, own);
    }
    return found;
  }

  // Fills the buffers. of_nodes: external input and noise of all nodes. block: room for all chunks if there will be a way back.
  void ahead(const Tensors& buffers, const Tensors& of_nodes, Tensor block, bool recording) {
    Room room(std::move(block));
    for (auto& chunk : chunks_) {
      Tensors own;
      for (auto& one : of_nodes) own.push_back(one.index_select(0, chunk.nodes));
      auto kept = steps_.at(chunk.arity).ahead(buffers, chunk, std::move(own), room);
      if (recording) kept_.push_back(std::move(kept));
      else room.empty();
      check_signals();
    }
  }

  // Adds to the gradients of the buffers, and of external input where they are wanted. waiting: rows of gradients wait for the
  // end, and block has room for all of them.
  void back(const Tensors& buffers, const Tensors& gradients, std::optional<Tensor> of_inputs, Tensor block, bool waiting) {
    settle();  // what a way back that failed has left
    Room room(std::move(block));
    for (size_t i = chunks_.size(); i-- > 0;) {
      steps_.at(chunks_[i].arity).back(buffers, chunks_[i], kept_.at(i), gradients, of_inputs.value_or(Tensor()), room);
      if (!waiting) room.empty();
      check_signals();
    }
  }

  // The gradients of parameters, none of those that were not used.
  Tensors settle() {
    Tensors gradients(parameters_.size());
    for (auto& [arity, steps] : steps_) steps.settle(gradients);
    return gradients;
  }

 private:
  static void check_signals() {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

  std::map<size_t, std::shared_ptr<Step>> forms_;
  std::vector<Chunk> chunks_;
  Tensors parameters_;
  std::map<size_t, Steps> steps_;
  std::vector<Kept> kept_;
};

}  // namespace treestack

PYBIND11_MODULE(treestack_native, module) {
  using namespace treestack;
  auto local = py::module_local();
  py::class_<Kernel, std::shared_ptr<Kernel>>(module, "Kernel", local)
      .def(py::init<const std::string&, Places>())
      .def(py::init<py::function>())
      .def("__call__", &Kernel::operator());
  py::class_<Unit>(module, "Unit", local)
      .def(py::init<Shape, Shape, Shape, bool, bool, bool, std::vector<Places>, std::vector<Places>>());
  py::class_<Piece>(module, "Piece", local).def(py::init<Places, Places, Places>());
  py::class_<Step, std::shared_ptr<Step>>(module, "Step", local)
      .def(py::init<size_t, size_t, std::vector<Unit>, std::vector<Piece>, std::vector<Places>>())
      .def("set_ahead", [](Step& step, size_t piece, std::shared_ptr<Kernel> kernel) { step.pieces[piece].ahead = kernel; })
      .def("set_back", [](Step& step, size_t piece, std::shared_ptr<Kernel> kernel) { step.pieces[piece].back = kernel; });
  py::class_<Chunk>(module, "Chunk", local)
      .def(py::init<size_t, int64_t, int64_t, Tensor, Tensor, Places, Shape>());
  py::class_<Sweep>(module, "Sweep", local)
      .def(py::init<std::map<size_t, std::shared_ptr<Step>>, std::vector<Chunk>, Tensors, bool>())
      .def("room", &Sweep::room)
      .def("ahead", &Sweep::ahead)
      .def("back", &Sweep::back)
      .def("settle", &Sweep::settle);
}
