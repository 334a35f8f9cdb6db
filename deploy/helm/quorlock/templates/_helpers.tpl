{{- define "quorlock.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "quorlock.labels" -}}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "quorlock.sidecar" -}}
app.kubernetes.io/name: quorlock
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quorlock.node" -}}
app.kubernetes.io/name: quorlock-node
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "quorlock.pod-security" -}}
runAsNonRoot: true
runAsUser: {{ . }}
runAsGroup: {{ . }}
fsGroup: {{ . }}
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "quorlock.container-security" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "quorlock.config-secret" -}}
{{ .Values.configSecret | default (printf "%s-nodes" (include "quorlock.name" .)) }}
{{- end }}

{{- define "quorlock.tokens-secret" -}}
{{ .Values.tokensSecret | default (printf "%s-tokens" (include "quorlock.name" .)) }}
{{- end }}
