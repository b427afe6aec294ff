// SPDX-License-Identifier: Apache-2.0
// Weights read and written, and commands to cells.

#include "capi/internal/arguments.hpp"
#include "capi/internal/objects.hpp"

#include "mesh/mesh_access.hpp"
#include "mesh/runtime/command.hpp"
#include "mesh/weights/weight_store.hpp"

#include "core/printable.hpp"

#include <utility>

namespace weft::capi {
namespace {

Result<Encoding> encoding_of(const char* dtype, const char* granularity) {
  WEFT_TRY(const std::string_view text, text_of(dtype, "dtype"));
  const auto type = parse_dtype(text);
  if (!type) return fail(Errc::unknown_name, "dtype " + in_quotes(text) + " is no numeric type");
  if (!granularity) return Encoding(*type);
  const auto wanted = parse_granularity(granularity);
  if (!wanted)
    return fail(Errc::unknown_name,
                "granularity " + in_quotes(granularity) + " is none of tensor, channel, block32, block32_f16");
  if (!has_scale(*type))
    return fail(Errc::invalid_argument,
                "granularity " + in_quotes(granularity) + " of " + std::string(text) + ", which has no scales");
  WEFT_CHECK(check_granularity(*type, *wanted));
  return Encoding(*type, *wanted);
}

/// @error unknown_name: no layer; out_of_range: no such parameter
Result<const mesh::WeightStore::Parameter*> parameter_of(const mesh::Mesh& mesh, Coord at, std::size_t parameter) {
  const auto node = mesh.graph().find_layer(at);
  if (!node) return fail(Errc::unknown_name, "no layer stands at " + to_string(at));
  const auto all = mesh::MeshAccess::weights(mesh).of(*node);
  if (parameter >= all.size())
    return fail(Errc::out_of_range, "layer " + to_string(at) + ": parameter " + std::to_string(parameter) + " of " +
                                        std::to_string(all.size()));
  return &all[parameter];
}

/// Sends a command to a mesh of one's own, and executes it at once.
Status execute(mesh::Mesh& mesh, Coord at, const mesh::CommandMessage& command) {
  WEFT_TRY(const auto sent, mesh.post(at, command));
  mesh::MeshAccess::deliver_commands(mesh);
  if (!sent->is_done()) return fail(Errc::internal, "cell " + to_string(at) + ": a command was not executed");
  return sent->status();
}

Result<mesh::CommandMessage> command_of(const weft_command& given) {
  if (given.kind < 0 || static_cast<std::size_t>(given.kind) >= mesh::kCommandKindCount)
    return fail(Errc::out_of_range, "command.kind: " + std::to_string(given.kind) + " is outside [0, " +
                                        std::to_string(mesh::kCommandKindCount - 1) + "]");
  if (given.parameter > UINT32_MAX)
    return fail(Errc::out_of_range, "command.parameter: " + std::to_string(given.parameter));
  auto command = mesh::make_command(static_cast<mesh::CommandKind>(given.kind), given.not_before);
  command->level = given.at.layer;
  command->parameter = static_cast<std::uint32_t>(given.parameter);
  command->number = given.number;
  if (command->kind == mesh::CommandKind::morph) {
    WEFT_TRY(command->encoding, encoding_of(given.dtype, given.granularity));
  }
  WEFT_TRY(const auto values, array_of(given.values, given.count, "command.values"));
  command->values.assign(values.begin(), values.end());
  return command;
}

static_assert(WEFT_COMMAND_ENABLE == int(mesh::CommandKind::enable) &&
              WEFT_COMMAND_DISABLE == int(mesh::CommandKind::disable) &&
              WEFT_COMMAND_SET_PERIOD == int(mesh::CommandKind::set_period) &&
              WEFT_COMMAND_SET_WEIGHTS == int(mesh::CommandKind::set_weights) &&
              WEFT_COMMAND_RESET == int(mesh::CommandKind::reset) &&
              WEFT_COMMAND_PROBE == int(mesh::CommandKind::probe) &&
              WEFT_COMMAND_SNAPSHOT == int(mesh::CommandKind::snapshot) &&
              WEFT_COMMAND_MORPH == int(mesh::CommandKind::morph) &&
              WEFT_COMMAND_SET_RATE == int(mesh::CommandKind::set_rate) && mesh::kCommandKindCount == 9);

}  // namespace
}  // namespace weft::capi

using namespace weft;
using namespace weft::capi;

weft_status weft_mesh_read_weights(weft_mesh* mesh, weft_coord at, size_t parameter, float* values, size_t capacity,
                                   size_t* out_needed) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(values, capacity, "values"));
    WEFT_TRY(const auto* const found, parameter_of(of.state.mesh(), coord_of(at), parameter));
    const std::size_t count = found->spec->out * (found->spec->is_matrix() ? found->spec->in : 1);
    Outcome outcome;
    if (is_size_only(count, values, capacity, out_needed, outcome)) return outcome;
    const std::vector<float> read = mesh::MeshAccess::weights(of.state.mesh()).read(*found);
    return copy_out(std::span<const float>(read), values, capacity, out_needed);
  });
}

weft_status weft_mesh_write_weights(weft_mesh* mesh, weft_coord at, size_t parameter, const float* values,
                                    size_t count) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(mesh::Mesh* const own, of.state.own_mesh("writing weights", "send the command set_weights"));
    WEFT_TRY([[maybe_unused]] const auto* const found, parameter_of(*own, coord_of(at), parameter));
    weft_command given{};
    given.kind = WEFT_COMMAND_SET_WEIGHTS;
    given.at = at;
    given.parameter = parameter;
    given.values = values;
    given.count = count;
    WEFT_TRY(const mesh::CommandMessage command, command_of(given));
    return execute(*own, coord_of(at), command);
  });
}

weft_status weft_mesh_morph(weft_mesh* mesh, weft_coord at, const char* dtype, const char* granularity) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_TRY(mesh::Mesh* const own, of.state.own_mesh("morphing", "send the command morph"));
    weft_command given{};
    given.kind = WEFT_COMMAND_MORPH;
    given.at = at;
    given.dtype = dtype;
    given.granularity = granularity;
    WEFT_TRY(const mesh::CommandMessage command, command_of(given));
    return execute(*own, coord_of(at), command);
  });
}

weft_status weft_mesh_command(weft_mesh* mesh, const weft_command* command, weft_answer** out_answer) {
  return with<MeshObject>(mesh, [&](MeshObject& of) -> Outcome {
    WEFT_CHECK(check_out(command, "command"));
    WEFT_TRY(const weft_command given, struct_of(command, "command"));
    WEFT_TRY(mesh::CommandMessage message, command_of(given));
    // The handle first: a command that was sent cannot be taken back.
    weft_answer* answer = nullptr;
    if (out_answer)
      if (Outcome made = hand_out(std::make_unique<AnswerObject>(message), &answer); !made.is_good()) return made;
    const auto sent = of.state.change([&](auto& to) { return to.post(coord_of(given.at), message); });
    if (!sent) {
      if (answer) destroy<AnswerObject>(answer);
      return fail(sent.error());
    }
    if (out_answer) *out_answer = answer;
    return {};
  });
}

weft_status weft_answer_status(weft_answer* answer, int* out_is_done, uint64_t* out_tick) {
  return with<AnswerObject>(answer, [&](AnswerObject& of) -> Outcome {
    const bool is_done = of.message->is_done();
    if (out_is_done) *out_is_done = is_done;
    if (!is_done) return {};
    if (out_tick) *out_tick = of.message->done_at();
    return of.message->status();
  });
}

weft_status weft_answer_values(weft_answer* answer, float* values, size_t capacity, size_t* out_needed) {
  return with<AnswerObject>(answer, [&](AnswerObject& of) -> Outcome {
    WEFT_TRY([[maybe_unused]] const auto buffer, array_of(values, capacity, "values"));
    if (!of.message->is_done()) return fail(Errc::not_found, "the command is not executed yet: tick");
    return copy_out(std::span<const float>(of.message->answer()), values, capacity, out_needed);
  });
}

weft_status weft_answer_destroy(weft_answer* answer) { return destroy<AnswerObject>(answer); }
