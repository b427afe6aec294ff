// SPDX-License-Identifier: Apache-2.0

#pragma once

#include <string_view>

namespace weft::text {

/// Templates for models whose files have none, by the name of their format. Written here from what the formats look
/// like; a system message that a format has no place for goes before the first message of the user.
struct BuiltInTemplate {
  std::string_view name, source;
};
constexpr BuiltInTemplate kBuiltInTemplates[] = {
    {"chatml",
     "{%- for message in messages -%}\n"
     "{{ '<|im_start|>' ~ message.role ~ '\\n' ~ message.content ~ '<|im_end|>\\n' }}\n"
     "{%- endfor -%}\n"
     "{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama2",
     "{%- set ns = namespace(system='') -%}\n"
     "{%- for message in messages -%}\n"
     "{%- if message.role == 'system' -%}\n"
     "{%- set ns.system = '<<SYS>>\\n' ~ message.content ~ '\\n<</SYS>>\\n\\n' -%}\n"
     "{%- elif message.role == 'user' -%}\n"
     "{{ bos_token ~ '[INST] ' ~ ns.system ~ message.content|trim ~ ' [/INST]' }}{% set ns.system = '' -%}\n"
     "{%- else -%}\n"
     "{{ ' ' ~ message.content|trim ~ ' ' ~ eos_token }}\n"
     "{%- endif -%}\n"
     "{%- endfor -%}"},
    {"llama3",
     "{{- bos_token -}}\n"
     "{%- for message in messages -%}\n"
     "{{ '<|start_header_id|>' ~ message.role ~ '<|end_header_id|>\\n\\n' ~ message.content|trim ~ '<|eot_id|>' }}\n"
     "{%- endfor -%}\n"
     "{%- if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"gemma",
     "{{- bos_token -}}\n"
     "{%- set ns = namespace(system='') -%}\n"
     "{%- for message in messages -%}\n"
     "{%- if message.role == 'system' -%}\n"
     "{%- set ns.system = message.content|trim ~ '\\n\\n' -%}\n"
     "{%- else -%}\n"
     "{%- set role = 'model' if message.role == 'assistant' else message.role -%}\n"
     "{{ '<start_of_turn>' ~ role ~ '\\n' ~ ns.system ~ message.content|trim ~ '<end_of_turn>\\n' }}\n"
     "{%- set ns.system = '' -%}\n"
     "{%- endif -%}\n"
     "{%- endfor -%}\n"
     "{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"phi3",
     "{%- for message in messages -%}\n"
     "{{ '<|' ~ message.role ~ '|>\\n' ~ message.content ~ '<|end|>\\n' }}\n"
     "{%- endfor -%}\n"
     "{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
    {"raw", "{%- for message in messages %}{{ message.content }}{% endfor %}"},
};

}  // namespace weft::text
