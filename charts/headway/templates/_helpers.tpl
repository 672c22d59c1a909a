{{- define "headway.labels" -}}
app.kubernetes.io/name: headway
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "headway.selector" -}}
app.kubernetes.io/name: headway
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "headway.account" -}}
system:serviceaccount:{{ include "headway.system" . }}:headway
{{- end }}

{{/* Where Headway itself runs: with one namespace to watch, inside it. */}}
{{- define "headway.system" -}}
{{- .Release.Namespace -}}
{{- end }}

{{- define "headway.image" -}}
"{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
{{- end }}

{{/* The restricted standard, of pods and of containers. */}}
{{- define "headway.podSecurity" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "headway.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "headway.config" -}}
{{- if .Values.queues }}
queues.yaml: |
  {{- toYaml .Values.queues | nindent 2 }}
{{- end }}
{{- if .Values.users }}
users.yaml: |
  {{- toYaml .Values.users | nindent 2 }}
{{- end }}
{{- if .Values.template }}
template.yaml: |
  {{- toYaml .Values.template | nindent 2 }}
{{- end }}
{{- end }}
