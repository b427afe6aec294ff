// SPDX-License-Identifier: Apache-2.0

#include "mesh/runtime/cell_actor.hpp"

#include "mesh/network/graph.hpp"
#include "mesh/network/option.hpp"
#include "mesh/network/option_reader.hpp"
#include "mesh/runtime/actor_fields.hpp"
#include "mesh/runtime/actor_runner.hpp"
#include "mesh/runtime/target_trainer.hpp"

#include <algorithm>
#include <exception>
#include <map>
#include <new>
#include <utility>

namespace weft::mesh {
namespace {

/// The layer that stands for an actor in a network. It fires nothing itself: its runner does, in a mesh.
class ActorLayer final : public Layer {
 public:
  struct Places {
    std::vector<Coord> tells, trains;
  };
  ActorLayer(const Shape& in, std::size_t out, std::unique_ptr<CellActor> actor, Places places)
      : Layer(in, Shape{out}), actor_(std::move(actor)), places_(std::move(places)) {}

  bool is_observer() const noexcept override { return true; }
  bool handles_mail() const noexcept override { return true; }
  std::span<const Coord> tells() const noexcept override { return places_.tells; }
  std::span<const Coord> trains() const noexcept override { return places_.trains; }
  Result<MadeObserver> make_observer(const ObserverSite& site) const override;

  void forward(kernels::OpStream& stream, const ForwardArgs& args) const override { stream.fill({0.0f, args.y}); }
  void backward(kernels::OpStream& stream, const BackwardArgs& args) const override {
    if (args.dx.data) stream.fill({0.0f, args.dx});
  }

 private:
  std::unique_ptr<CellActor> actor_;
  Places places_;
};

Result<MadeObserver> ActorLayer::make_observer(const ObserverSite& site) const {
  const Graph& graph = site.graph;
  const Node& node = graph.nodes()[site.node];
  std::map<NodeId, ActorNeighbour> neighbours;
  const auto add = [&](NodeId other, bool may_command) {
    if (graph.nodes()[other].is_port()) return;
    ActorNeighbour& found = neighbours[other];
    found.at = graph.nodes()[other].at;
    found.place = site.place_of(other);
    found.handles_mail = graph.nodes()[other].layer->handles_mail();
    found.may_command |= may_command;
  };
  for (const std::uint32_t edge : node.sources) add(graph.edges()[edge].from, true);
  for (const std::uint32_t edge : node.readers) add(graph.edges()[edge].to, false);
  for (const NodeId other : site.told_by(site.node)) add(other, false);
  for (const Coord at : places_.tells) {
    const auto other = graph.find_layer(at);
    if (!other) return fail(Errc::unknown_name, node.object + ".tells: no layer stands at " + to_string(at));
    add(*other, true);
  }
  for (const Coord at : places_.trains) {
    const auto other = graph.find_layer(at);
    if (!other) return fail(Errc::unknown_name, node.object + ".trains: no layer stands at " + to_string(at));
    const auto found = neighbours.find(*other);
    if (found == neighbours.end())
      return fail(Errc::invalid_argument,
                  node.object + ".trains: " + to_string(at) + " is no neighbour; read it, or name it in \"tells\" too");
    if (auto fits = TargetTrainer::check(graph, *other); !fits)
      return fail(std::move(fits).error().within(node.object + ".trains"));
    found->second.may_train = true;
  }
  WEFT_TRY(auto actor, checked_copy(*actor_, node.object + " (" + graph.layer_spec(site.node).type + ")"));
  MadeObserver made;
  std::vector<ActorNeighbour> all;
  for (const auto& [other, neighbour] : neighbours) {
    made.neighbours.push_back(other);
    if (neighbour.may_train) made.trained.push_back(neighbour.place);
    all.push_back(neighbour);
  }
  auto runner =
      std::make_unique<ActorRunner>(graph, site.node, site.place_of(site.node).level, std::move(actor), std::move(all));
  made.outbox = &runner->outbox();
  made.takes_mail = true;
  made.observer = std::move(runner);
  return made;
}

Result<std::vector<Coord>> read_places(OptionReader& options, std::string_view key) {
  WEFT_TRY(const auto numbers, options.integers(key, 0, std::vector<std::size_t>()));
  if (numbers.size() % 4 != 0)
    return fail(Errc::shape_mismatch, options.object() + "." + std::string(key) + ": " +
                                          std::to_string(numbers.size()) + " numbers; a place is z, y, x and l");
  std::vector<Coord> places;
  for (std::size_t i = 0; i < numbers.size(); i += 4) {
    const auto at = [&](std::size_t j) { return static_cast<std::uint32_t>(numbers[i + j]); };
    places.push_back({at(0), at(1), at(2), at(3)});
  }
  return places;
}

/// An actor by a user's factory; what it throws, as an error.
Result<std::unique_ptr<CellActor>> made_by(const CellActorFactory& factory, const std::string& type, const Shape& in,
                                           OptionReader& options) {
  const std::string what = options.object() + ": the factory of '" + type + "' threw";
  try {
    return factory(in, options);
  } catch (const std::bad_alloc&) {
    throw;  // as everywhere (docs/embedding.md)
  } catch (const std::exception& thrown) {
    return fail(Errc::internal, what + ": " + thrown.what());
  } catch (...) {
    return fail(Errc::internal, what);
  }
}

OptionRow places(std::string_view key, std::string_view meaning) {
  OptionRow row = option::wholes(key, option::none(), 0, UINT32_MAX, 4, SIZE_MAX, "z, y, x, l", meaning);
  row.is_one_for_all = false;
  return row;
}

}  // namespace

Status register_cell(std::string type, CellActorFactory factory, LayerDeclaration declaration) {
  if (!factory) return fail(Errc::invalid_argument, "cell type '" + type + "': its factory is empty");
  declaration.options.push_back(option::out(option::computed("1"), "values", "width of its output"));
  declaration.options.push_back(places("tells", "neighbours besides its links"));
  declaration.options.push_back(places("trains", "neighbours that move towards its targets"));
  LayerFactory make = [type, factory = std::move(factory)](const Shape& in, std::size_t out,
                                                           OptionReader& options) -> Result<std::unique_ptr<Layer>> {
    WEFT_TRY(auto actor, made_by(factory, type, in, options));
    if (!actor) return fail(Errc::invalid_argument, options.object() + ": the factory of '" + type + "' made no actor");
    ActorLayer::Places places;
    WEFT_TRY(places.tells, read_places(options, "tells"));
    WEFT_TRY(places.trains, read_places(options, "trains"));
    return std::unique_ptr<Layer>(
        new ActorLayer(in, std::max<std::size_t>(out, 1), std::move(actor), std::move(places)));
  };
  return register_layer(std::move(type), std::move(make), std::move(declaration));
}

}  // namespace weft::mesh
