// The loop over the frontiers of a sweep, forward and backward, around compiled steps, and the custom operator `linear` that
// compiled steps call. In C++ because a frontier takes dozens of torch calls, most of them on few rows.

// At batch 32, Python and the way from it into torch took 40 % of a Child-Sum Tree-LSTM's step. The loop in C++ made it
// 1.49 times as fast, Tree-SMU 1.39 times (1.19 at 1,024).
#include <torch/csrc/utils/pybind.h>

#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <torch/library.h>

#include <ATen/ThreadLocalState.h>

#include <deque>
#include <map>
#include <optional>
#include <set>

#include "linear.h"
#include "workers.h"

namespace treestack {

// A compiled graph: native code from a file, or a Python function; `used` are the inputs that it takes.
class Graph {
 public:
  // With as many instances as threads: one instance serves one thread at a time.
  Graph(const std::string& path, Indices used)
      : native_(std::make_unique<torch::inductor::AOTIModelPackageLoader>(path, "model", false, Workers::most())),
        used_(std::move(used)) {}
  Graph(py::function function, Indices used) : function_(std::move(function)), used_(std::move(used)) {}

  bool is_native() const { return native_ != nullptr; }

  Tensors operator()(const Tensors& inputs) const {
    Tensors used;
    used.reserve(used_.size());
    for (auto i : used_) used.push_back(inputs[i]);
    if (!native_) return function_(used).cast<Tensors>();
    return native_->boxed_run(std::move(used));
  }

 private:
  std::unique_ptr<torch::inductor::AOTIModelPackageLoader> native_;
  py::function function_;
  Indices used_;
};

// The maps of a product whose shapes are equal. weight (K, out, in), bias (K, out): indices among the parameters, or -1.
// rows: by operator, the row of its map, or -1. shared: one map for all operators.
struct Stack {
  int64_t weight, bias;
  Shape rows;
  bool shared;
};

// A cell's step of one form. calls: the stack of every call of `linear`. widths: numbers per row of their results.
// destinations: per gradient that `backward` returns, the field, or -1 for external input; then x and gradient of y follow for
// every call in `calls_with_gradient`.
struct Step {
  Indices calls;
  Shape widths;
  std::shared_ptr<Graph> forward, backward;
  std::vector<int64_t> destinations;
  Indices calls_with_gradient;
};

// n rows of the buffers, of one level and arity, in segments of one operator.
struct Frontier {
  size_t arity;
  int64_t start, count;
  Tensor children, nodes;
  Indices operators;
  Shape sizes;

  int64_t last_child() const {
    auto* rows = children.const_data_ptr<int64_t>();
    return *std::max_element(rows, rows + children.numel());
  }

  Frontier piece(int64_t first, int64_t last) const {
    Frontier rows{arity, start + first, last - first, children.narrow(0, first * arity, (last - first) * arity),
                  nodes.narrow(0, first, last - first), {}, {}};
    int64_t segment = 0;
    for (size_t i = 0; i < sizes.size(); segment += sizes[i++]) {
      auto size = std::min(last, segment + sizes[i]) - std::max(first, segment);
      if (size <= 0) continue;
      rows.operators.push_back(operators[i]);
      rows.sizes.push_back(size);
    }
    return rows;
  }
};

// Frontiers are cut into pieces of at most so many rows, however many threads there are, so that numbers do not depend on
// threads. One thread takes 1.00 to 1.05 times as long as without cuts.
constexpr int64_t PIECE = 256;
// Fewer rows take less time than it takes to wake a thread.
constexpr int64_t PARALLEL_ROWS = 96;

class Sweep {
 public:
  // threads: to run the pieces of a level in.
  Sweep(std::map<size_t, std::shared_ptr<Step>> steps, std::vector<Stack> stacks, std::vector<Frontier> frontiers,
        Tensors parameters, int64_t deferred_weight, int64_t deferred_rows, size_t threads)
      : steps_(std::move(steps)),
        stacks_(std::move(stacks)),
        parameters_(std::move(parameters)),
        deferral_{deferred_weight, deferred_rows},
        gradients_(parameters_.size()),
        maps_(stacks_.size()),
        used_(stacks_.size()),
        threads_(threads) {
    int64_t level_start = 0;
    for (auto& frontier : frontiers) {
      // A frontier whose children all precede the level is of that level too: one of the other arity, or the rest of this one.
      if (levels_.empty() || !frontier.children.is_cpu() || frontier.last_child() >= level_start) {
        level_start = frontier.start;
        levels_.push_back({pieces_.size(), pieces_.size(), 0});
      }
      auto& level = levels_.back();
      level.rows += frontier.count;
      auto total = frontier.count, count = (total + PIECE - 1) / PIECE;
      for (int64_t i = 0; i < count && count > 1; ++i) pieces_.push_back(frontier.piece(total * i / count, total * (i + 1) / count));
      if (count == 1) pieces_.push_back(std::move(frontier));
      level.last = pieces_.size();
    }
    saved_.resize(pieces_.size());
    for (auto& piece : pieces_) add_maps(piece);
    for (auto& [arity, step] : steps_) splits_ &= step->forward->is_native();
    std::set<int64_t> gradients;
    for (auto& stack : stacks_)  // two stacks with one parameter, which two threads would add to
      for (auto parameter : {stack.weight, stack.bias}) splits_ &= parameter < 0 || gradients.insert(parameter).second;
  }

  // Numbers of the results of linear maps: of all pieces, or of the largest level.
  int64_t numbers(bool all) const {
    int64_t sum = 0, largest = 0;
    for (auto& level : levels_) {
      int64_t of_level = 0;
      for (size_t i = level.first; i < level.last; ++i) of_level += numbers_of(pieces_[i]);
      sum += of_level;
      largest = std::max(largest, of_level);
    }
    return all ? sum : largest;
  }

  // Fills the buffers. per_node: external input and noise of all nodes. block: for the results of linear maps.
  void forward(const Tensors& buffers, const Tensors& per_node, const Tensor& block, bool recording) {
    OneThread one_thread;
    int64_t used = 0;
    for (auto& level : levels_) {
      if (!recording) used = 0;
      auto places = places_of(level, used);
      run(level.rows, places.size(), [&](size_t i) {
        auto& piece = pieces_[level.first + i];
        Active active(this, piece, block, places[i]);
        auto inputs = inputs_of(piece, buffers, per_node);
        for (auto& buffer : buffers) add_rows(inputs, rows_of(buffer, piece));
        auto y = (*active.step.forward)(inputs);
        if (recording) saved_[level.first + i] = std::move(y);
      });
      check_signals();
    }
  }

  // Adds to the gradients of the buffers, and to input_gradient if there is one.
  void backward(const Tensors& buffers, const Tensors& per_node, const Tensors& gradients,
                const std::optional<Tensor>& input_gradient, const Tensor& block) {
    OneThread one_thread;
    take_gradients();  // discards the gradients of a failed backward pass
    for (size_t l = levels_.size(); l-- > 0;) {
      auto& level = levels_[l];
      int64_t used = 0;
      auto places = places_of(level, used);
      std::vector<Tensors> results(places.size());
      auto fields = gradients.size() + input_gradient.has_value();
      bool parallel = is_parallel(level.rows);
      run(level.rows, places.size(), [&](size_t i) {
        auto& piece = pieces_[level.first + i];
        Active active(this, piece, block, places[i]);
        auto inputs = inputs_of(piece, buffers, per_node), &y = saved_[level.first + i];
        inputs.insert(inputs.end(), y.begin(), y.end());
        for (auto& gradient : gradients) inputs.push_back(rows_of(gradient, piece));
        results[i] = (*active.step.backward)(inputs);
        if (parallel) return;
        NoAutograd guard;
        for (size_t field = 0; field < fields; ++field) scatter(piece, results[i], field, gradients, input_gradient);
        std::deque<Tensor> flat_tensors;
        each_product(piece, results[i], flat_tensors, [](Map& map, Rows x, Rows gradient_y) { map.accumulate(x, gradient_y); });
        results[i].clear();
      });
      if (parallel) {
        // A thread adds to one field, or to one map: sums are in the order of the pieces.
        NoAutograd guard;
        std::deque<Tensor> flat_tensors;
        std::vector<std::pair<Map*, std::vector<std::pair<Rows, Rows>>>> products;
        std::map<Map*, size_t> places_of_maps;
        for (size_t i = level.first; i < level.last; ++i)
          each_product(pieces_[i], results[i - level.first], flat_tensors, [&](Map& map, Rows x, Rows gradient_y) {
            auto [place, is_new] = places_of_maps.try_emplace(&map, products.size());
            if (is_new) products.push_back({&map, {}});
            products[place->second].second.push_back({x, gradient_y});
          });
        std::ranges::stable_sort(products, {}, [](auto& of_map) { return of_map.first->cost(of_map.second); });
        run(level.rows, products.size() + fields, [&](size_t i) {
          NoAutograd guard;
          if (i < products.size()) {
            for (auto& [x, gradient_y] : products[i].second) products[i].first->accumulate(x, gradient_y);
            return;
          }
          for (size_t k = 0; k < results.size(); ++k)
            scatter(pieces_[level.first + k], results[k], i - products.size(), gradients, input_gradient);
        });
      }
      check_signals();
    }
  }

  // The gradients of parameters, undefined for those of which no row was used, and the rows used of every stack.
  std::pair<Tensors, std::vector<Shape>> take_gradients() {
    OneThread one_thread;
    int64_t deferred_rows = 0;
    std::vector<Map*> used;
    for (size_t stack = 0; stack < stacks_.size(); ++stack)
      for (auto row : used_[stack]) deferred_rows += used.emplace_back(&map(stack, row))->deferred_rows();
    run(deferred_rows, used.size(), [&](size_t i) { used[i]->compute_deferred(); });
    for (auto* row_map : used) row_map->weight_gradient = row_map->bias_gradient = Tensor();
    return {std::exchange(gradients_, Tensors(parameters_.size())),
            std::exchange(used_, std::vector<Shape>(stacks_.size()))};
  }

  // `linear` of the current piece, or the gradient of its x.
  static Tensor linear(const Tensor& x, int64_t call, int64_t width, bool transposed) {
    TORCH_CHECK(active_ != nullptr, "treestack::linear runs inside a sweep only");
    at::DimVector shape(x.sizes().begin(), x.sizes().end() - 1);
    shape.push_back(width);
    auto y = active_->arena.take(shape), y_rows = flat(y), x_rows = flat(x);
    auto stack = active_->step.calls[call];
    auto& sweep = *active_->sweep;
    sweep.by_segment(active_->piece, stack, y_rows.size(0), [&](int64_t row, int64_t start, int64_t count) {
      if (transposed) sweep.map(stack, row).backward({x_rows, start, count}, {y_rows, start, count});
      else sweep.map(stack, row).forward({x_rows, start, count}, {y_rows, start, count});
    });
    return y;
  }

 private:
  // Pieces first .. last - 1, which need no result of each other.
  struct Level {
    size_t first, last;
    int64_t rows;
  };

  // The place of a piece's results in the block.
  struct Place {
    int64_t start, stop;
  };

  // Sets what `linear` belongs to, on this thread.
  struct Active {
    Active(Sweep* sweep, const Frontier& piece, const Tensor& block, Place place)
        : sweep(sweep), piece(piece), step(*sweep->steps_.at(piece.arity)), arena(block, place.start, place.stop), previous(active_) {
      active_ = this;
    }
    ~Active() { active_ = previous; }
    Sweep* sweep;
    const Frontier& piece;
    const Step& step;
    Arena arena;
    Active* previous;
  };

  bool is_parallel(int64_t rows) const { return splits_ && threads_ > 1 && rows >= PARALLEL_ROWS; }

  // Calls function(i) for i = 0 .. count - 1, in threads if there are many rows. Pieces with the most children come last.
  void run(int64_t rows, size_t count, const Workers::Function& function) const {
    if (!is_parallel(rows)) return Workers::run(count, 1, function);
    at::ThreadLocalState state;
    Workers::run(count, threads_, [&](size_t i) {
      at::ThreadLocalStateGuard guard(state);
      function(i);
    });
  }

  static void check_signals() {
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }

  // (n, ..., width) as (n * repeats, width)
  static Tensor flat(const Tensor& x) { return x.dim() == 2 ? x : x.flatten(0, -2); }

  static Tensor rows_of(const Tensor& buffer, const Frontier& piece) {
    NoAutograd guard;
    return buffer.narrow(0, piece.start, piece.count);
  }

  int64_t numbers_of(const Frontier& piece) const {
    int64_t sum = 0;
    for (auto width : steps_.at(piece.arity)->widths) sum += Arena::aligned(piece.count * width);
    return sum;
  }

  // used: numbers of the block before the level, then those after it.
  std::vector<Place> places_of(const Level& level, int64_t& used) const {
    std::vector<Place> places;
    for (size_t i = level.first; i < level.last; ++i) {
      auto start = used;
      places.push_back({start, used += numbers_of(pieces_[i])});
    }
    return places;
  }

  // A field (n, rows, width) row by row: kernels write into each.
  static void add_rows(Tensors& list, const Tensor& field) {
    NoAutograd guard;
    if (field.dim() != 3) return list.push_back(field);
    for (int64_t i = 0; i < field.size(1); ++i) list.push_back(field.select(1, i));
  }

  static Tensors inputs_of(const Frontier& piece, const Tensors& buffers, const Tensors& per_node) {
    NoAutograd guard;
    Tensors inputs(buffers);
    inputs.push_back(piece.children);
    for (auto& values : per_node) inputs.push_back(values.index_select(0, piece.nodes));
    return inputs;
  }

  // Adds to the gradient of a field, or after the last field to that of external input.
  // A gradient row of its own for every use of a child, added up by the child, was 3 to 8 % faster at batch 1,024 and
  // not at 32, for some 100 lines: rejected.
  void scatter(const Frontier& piece, const Tensors& results, size_t field, const Tensors& gradients,
               const std::optional<Tensor>& input_gradient) const {
    auto& destinations = steps_.at(piece.arity)->destinations;
    for (size_t i = 0; i < destinations.size(); ++i) {
      if (destinations[i] == static_cast<int64_t>(field)) add_at(gradients[field], piece.children, results[i].flatten(0, 1));
      else if (destinations[i] < 0 && field == gradients.size()) input_gradient->index_add_(0, piece.nodes, results[i]);
    }
  }

  // Calls a function with a map, x and the gradient of y, for every call of `linear` and segment of a piece.
  // flat_tensors: what the rows refer to.
  template <typename Function>
  void each_product(const Frontier& piece, const Tensors& results, std::deque<Tensor>& flat_tensors, Function function) {
    auto& step = *steps_.at(piece.arity);
    auto result = results.begin() + step.destinations.size();
    for (auto call : step.calls_with_gradient) {
      auto &x = flat_tensors.emplace_back(flat(*result++)), &gradient_y = flat_tensors.emplace_back(flat(*result++));
      auto stack = step.calls[call];
      by_segment(piece, stack, gradient_y.size(0), [&](int64_t row, int64_t start, int64_t count) {
        function(with_gradient(stack, row), Rows(x, start, count), Rows(gradient_y, start, count));
      });
    }
  }

  // Calls a function with the map's row in its stack, the first row and the number of rows of every segment of a piece.
  // rows: of the piece, repeats included.
  // Segments of every other frontier in reverse order, so that weights are still in the cache, gained nothing (1.00).
  template <typename Function>
  void by_segment(const Frontier& piece, size_t stack, int64_t rows, Function function) {
    auto& row_of = stacks_[stack].rows;
    auto repeats = rows / piece.count;
    if (stacks_[stack].shared) return function(row_of[piece.operators[0]], 0, rows);
    int64_t start = 0;
    for (size_t i = 0; i < piece.sizes.size(); start += piece.sizes[i++])
      function(row_of[piece.operators[i]], start * repeats, piece.sizes[i] * repeats);
  }

  Map& map(size_t stack, size_t row) { return *maps_[stack][row]; }

  // The maps that a piece uses, before threads read them.
  void add_maps(const Frontier& piece) {
    NoAutograd guard;
    for (auto stack : steps_.at(piece.arity)->calls)
      by_segment(piece, stack, piece.count, [&](size_t row, int64_t, int64_t) {
        auto& maps = maps_[stack];
        if (maps.size() <= row) maps.resize(row + 1);
        if (maps[row]) return;
        auto of_parameter = [&](int64_t i) { return i < 0 ? Tensor() : parameters_[i].select(0, row); };
        maps[row].emplace(of_parameter(stacks_[stack].weight), of_parameter(stacks_[stack].bias), deferral_);
      });
  }

  // A map whose gradients are rows of those of the parameters, which are zero at first.
  Map& with_gradient(size_t stack, size_t row) {
    auto& row_map = map(stack, row);
    if (row_map.weight_gradient.defined() || row_map.bias_gradient.defined()) return row_map;
    auto of_parameter = [&](int64_t i) {
      if (i < 0) return Tensor();
      // A tensor each: one block for the gradients of all parameters gained nothing (0.995).
      if (!gradients_[i].defined()) gradients_[i] = at::zeros_like(parameters_[i]);
      return gradients_[i].select(0, row);
    };
    row_map.weight_gradient = of_parameter(stacks_[stack].weight);
    row_map.bias_gradient = of_parameter(stacks_[stack].bias);
    used_[stack].push_back(row);
    return row_map;
  }
  std::map<size_t, std::shared_ptr<Step>> steps_;
  std::vector<Stack> stacks_;
  Tensors parameters_;
  Deferral deferral_;
  Tensors gradients_;
  std::vector<std::vector<std::optional<Map>>> maps_;  // by stack and row
  std::vector<Shape> used_;  // rows with a gradient, by stack
  size_t threads_;
  bool splits_ = true;  // whether threads may share the work: not with Python functions, nor with tied parameters
  std::vector<Frontier> pieces_;
  std::vector<Level> levels_;
  std::vector<Tensors> saved_;  // by piece
  static inline thread_local Active* active_ = nullptr;
};

Tensor linear(const Tensor& x, int64_t call, int64_t width, bool transposed) {
  return Sweep::linear(x, call, width, transposed);
}

}  // namespace treestack

TORCH_LIBRARY(treestack, library) {
  library.def("linear(Tensor x, int call, int width, bool transposed) -> Tensor");
  library.impl("linear", c10::DispatchKey::CompositeExplicitAutograd, treestack::linear);
}

PYBIND11_MODULE(treestack_native, module) {
  using namespace treestack;
  auto local = py::module_local();
  py::class_<Graph, std::shared_ptr<Graph>>(module, "Graph", local)
      .def(py::init<const std::string&, Indices>())
      .def(py::init<py::function, Indices>());
  py::class_<Stack>(module, "Stack", local).def(py::init<int64_t, int64_t, Shape, bool>());
  py::class_<Step, std::shared_ptr<Step>>(module, "Step", local)
      .def(py::init<Indices, Shape, std::shared_ptr<Graph>>())
      .def("set_backward", [](Step& step, std::shared_ptr<Graph> graph, std::vector<int64_t> destinations, Indices calls) {
        step.backward = std::move(graph);
        step.destinations = std::move(destinations);
        step.calls_with_gradient = std::move(calls);
      });
  py::class_<Frontier>(module, "Frontier", local)
      .def(py::init<size_t, int64_t, int64_t, Tensor, Tensor, Indices, Shape>());
  py::class_<Sweep>(module, "Sweep", local)
      .def(py::init<std::map<size_t, std::shared_ptr<Step>>, std::vector<Stack>, std::vector<Frontier>, Tensors, int64_t, int64_t, size_t>())
      .def("numbers", &Sweep::numbers)
      .def("forward", &Sweep::forward)
      .def("backward", &Sweep::backward)
      .def("take_gradients", &Sweep::take_gradients);
}
