package config

// Model holds the shape and components of a Transformer (sections 3 and 6.2 of the paper).
type Model struct {
	Topology       string `json:"topology"`
	SrcVocabSize   int    `json:"src_vocab_size"`
	TgtVocabSize   int    `json:"tgt_vocab_size"`
	DModel         int    `json:"d_model"`
	NHeads         int    `json:"n_heads"`
	NKVHeads       int    `json:"n_kv_heads"`
	DHead          int    `json:"d_head"`
	DFF            int    `json:"d_ff"`
	NEncoderLayers int    `json:"n_encoder_layers"`
	NDecoderLayers int    `json:"n_decoder_layers"`
	MaxLen         int    `json:"max_len"`

	AttentionScale *float64 `json:"attention_scale"`
	Window         int      `json:"window"` // 0: none
	Positions      string   `json:"positions"`
	Rotary         string   `json:"rotary"`
	Norm           string   `json:"norm"`
	NormEps        float64  `json:"norm_eps"`
	PreNorm        bool     `json:"pre_norm"`
	FinalNorm      *bool    `json:"final_norm"`
	EmbeddingNorm  bool     `json:"embedding_norm"`
	EmbeddingScale *float64 `json:"embedding_scale"`
	FeedForward    string   `json:"feed_forward"`
	Bias           bool     `json:"bias"`
	QKVBias        *bool    `json:"qkv_bias"`
	Tie            string   `json:"tie"`
	ProjectionBias *bool    `json:"projection_bias"`
	LogitScale     float64  `json:"logit_scale"`
	Copy           bool     `json:"copy"`
	Begin          bool     `json:"begin"`
	StartID        *int     `json:"start_id"`
}

// Start returns the decoder's first input.
func (m Model) Start() int {
	if m.StartID == nil {
		return 1 // model.bos_id, which has no other value here
	}
	return *m.StartID
}

// Decode holds the settings of the search (section 6.1).
type Decode struct {
	Beam              int      `json:"beam"`
	Alpha             float64  `json:"alpha"`
	MaxExtra          int      `json:"max_extra"`
	MaxLen            *int     `json:"max_len"`
	MinLen            int      `json:"min_len"`
	MaxRatio          *float64 `json:"max_ratio"`
	MinRatio          float64  `json:"min_ratio"`
	NoRepeatNgram     int      `json:"no_repeat_ngram"`
	RepetitionPenalty float64  `json:"repetition_penalty"`
	Suppress          []string `json:"suppress"`
	SuppressSpecial   bool     `json:"suppress_special"`
	Sample            bool     `json:"sample"`
	Unknown           string   `json:"unknown"`
}

// without lists settings that change training only, or that a search for one answer doesn't read.
var without = map[string]bool{
	"model.dropout": true, "model.attention_dropout": true, "model.activation_dropout": true, "model.augment": true,
	"model.mask_id": true,
	"decode.engine": true, "decode.n_best": true, "decode.diverse": true, "decode.temperature": true,
	"decode.top_k": true, "decode.top_p": true,
	"decode.min_p": true, "decode.seed": true, "decode.batch_tokens": true,
}

// choices lists the supported values of settings that name a part.
var choices = map[string][]string{
	"model.topology":     {"encoder-decoder", "decoder-only"},
	"model.positions":    {"sinusoidal", "sinusoidal_halves", "learned", "rotary", "relative", "alibi"},
	"model.norm":         {"layer", "rms"},
	"model.feed_forward": {"relu", "gelu", "gelu_tanh", "silu", "swiglu", "geglu"},
	"model.tie":          {"all", "target", "embeddings", "none"},
	"train.task":         {"translate", "summarize", "generate"},
	"decode.unknown":     {"error", "unk"},
}
